"""A silent stream: its server may be slow, may hang, or may be out of reach."""

import threading
import time

import pytest

from edgemeta.daemon.capture.source import SourceError, SourceSpec
from edgemeta.daemon.capture.sources.registry import make_source
from edgemeta.daemon.capture.sources.stream.process import ForkServer
from edgemeta.daemon.capture.sources.stream.server_watch import UNREACHABLE_AFTER
from edgemeta.daemon.config.source_address import SourceAddress
from tests.daemon.capture.sources.stream.lost_camera import LostCamera


@pytest.mark.gate("4 s: until a server counts as unreachable")
def test_an_unreachable_stream_is_reconnected_before_its_timeout(lost_camera: LostCamera) -> None:
    source = make_source(SourceSpec(SourceAddress(lost_camera.address), timeout=60.0))
    source.open()
    for _ in range(5):
        source.read()
    lost_camera.lose()
    finding = threading.Timer(UNREACHABLE_AFTER + 1.0, lost_camera.find)
    finding.start()
    began = time.monotonic()
    with pytest.raises(SourceError, match="was unreachable; reconnecting"):  # noqa: PT012
        while True:
            source.read()  # frames may be under way
    assert time.monotonic() - began > UNREACHABLE_AFTER
    source.close()
    source.open()
    assert source.read().pixels.shape == (48, 64, 3)
    source.close()
    finding.join()


@pytest.mark.gate("3 s: longer than a server that does not answer may be silent")
def test_a_slow_camera_is_not_disturbed_by_other_connections(lost_camera: LostCamera) -> None:
    source = make_source(SourceSpec(SourceAddress(lost_camera.address), timeout=60.0))
    source.open()
    source.read()
    lost_camera.pause()  # it sends nothing, and still takes every connection
    resuming = threading.Timer(UNREACHABLE_AFTER + 0.5, lost_camera.resume)
    resuming.start()
    while resuming.is_alive():
        source.read()
        assert len(lost_camera.connections) == 1
    source.read()
    source.close()


def test_behind_a_proxy(lost_camera: LostCamera, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the proxy may be in reach."""
    server = ForkServer()
    monkeypatch.setattr("edgemeta.daemon.capture.sources.stream.process.FORK_SERVER", server)
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{lost_camera.port}")
    source = make_source(SourceSpec(SourceAddress("http://camera.invalid/cam"), timeout=20.0))
    source.open()
    assert source.read().pixels.shape == (48, 64, 3)
    source.close()
    server.close()
