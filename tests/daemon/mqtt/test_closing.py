"""Explanations of a connection that was closed without a reason."""

import socket

from edgemeta.daemon.mqtt.closing import IDLE_FROM, explanation


def test_a_broker_that_accepts_no_connection_has_stopped() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        peer = listener.getsockname()
        assert explanation(peer, 0.0) is None
        idle = explanation(peer, 3 * IDLE_FROM)
        assert idle is not None
        assert "after 6 s without traffic" in idle
    for seconds in (0.0, 3 * IDLE_FROM):
        assert explanation(peer, seconds) == "and accepts no connection now: it stops or restarts"
