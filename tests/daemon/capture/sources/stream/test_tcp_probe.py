"""TCP reachability probe."""

import socket
import threading
from contextlib import closing

import pytest

from edgemeta.daemon.capture.sources.stream.tcp_probe import MAX_PENDING, TcpProbe, resolve, wait_for_answer
from tests.daemon.capture.sources.stream.lost_camera import LostCamera


def test_a_server_that_accepts_or_refuses_is_reachable(lost_camera: LostCamera) -> None:
    assert wait_for_answer(resolve("127.0.0.1", lost_camera.port), 10.0)
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    assert wait_for_answer(resolve("127.0.0.1", port), 10.0), "a refusal is an answer"


def test_no_route_is_no_answer_and_an_unknown_name_is_an_error() -> None:
    assert not wait_for_answer([(socket.AF_INET6, ("2001:db8::1", 9))], 0.3)
    with pytest.raises(socket.gaierror):
        resolve("nowhere.invalid", 554)


def test_the_end_of_an_outage_is_detected_soon(lost_camera: LostCamera) -> None:
    assert wait_for_answer(resolve("127.0.0.1", lost_camera.port), 10.0)
    lost_camera.lose()
    with closing(TcpProbe(resolve("127.0.0.1", lost_camera.port))) as probe:
        for _ in range(2 * MAX_PENDING):
            probe.connect()
            assert not probe.answered()
    finding = threading.Timer(0.5, lost_camera.find)
    finding.start()
    assert wait_for_answer(resolve("127.0.0.1", lost_camera.port), 20.0)
    finding.join()
