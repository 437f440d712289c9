"""Explanations of a connection that the broker closed without a reason."""

import socket
from typing import Any

LISTENS_WITHIN = 0.5
"""Seconds within which a broker that still runs accepts a TCP connection."""

IDLE_FROM = 2.0
"""Seconds without traffic from which an idle connection may have been ended by what is between."""


def explanation(peer: tuple[Any, ...], idle: float) -> str | None:
    """Return why it may have been closed, unless another client with the same client id remains the best explanation.

    peer: the broker's socket address. idle: seconds since the last message or answer.
    """
    try:
        socket.create_connection(peer[:2], LISTENS_WITHIN).close()
    except OSError:
        return "and accepts no connection now: it stops or restarts"
    if idle > IDLE_FROM:
        return f"after {idle:.0f} s without traffic, as routers and proxies do (see `mqtt.keepalive`)"
    return None
