"""TCP reachability probe, and a stream whose packets are lost for a while."""

import ctypes
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import closing

import cv2
import numpy as np
import pytest

from edgemeta.daemon.capture.source import SourceError, SourceSpec
from edgemeta.daemon.capture.sources.registry import make_source
from edgemeta.daemon.capture.sources.stream import UNREACHABLE_AFTER
from edgemeta.daemon.capture.sources.tcp_probe import MAX_PENDING, TcpProbe, resolve, wait_for_answer
from edgemeta.daemon.config.source_address import SourceAddress

JPEG = cv2.imencode(".jpg", np.full((48, 64, 3), (0, 0, 255), np.uint8))[1].tobytes()
HEAD = b"HTTP/1.0 200 OK\r\nContent-Type: multipart/x-mixed-replace; boundary=frame\r\n\r\n"
FRAME = b"--frame\r\nContent-Type: image/jpeg\r\nContent-Length: %d\r\n\r\n" % len(JPEG) + JPEG + b"\r\n"

DROP_ALL = struct.pack("HBBI", 0x06, 0, 0, 0)
"""One instruction of a classic packet filter, `return 0`: keep no byte of any packet (<linux/filter.h>)."""

SO_ATTACH_FILTER, SO_DETACH_FILTER = 26, 27
"""Of <asm-generic/socket.h>; the socket module does not name them."""


class Camera:
    """Sends a frame every 50 ms to whoever asks, until it falls silent or its packets are lost.

    Lost are those that begin a connection: a packet filter on the listening socket, which every Linux lets every user
    attach, drops them before TCP sees them. Streams of before stay silent for good, as TCP lets them be for long.
    """

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._sends = threading.Event()
        self._sends.set()
        self._losses = 0
        self.lost = False
        self._ending = threading.Event()
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def lose(self) -> None:
        self.lost = True
        self._losses += 1
        code = ctypes.create_string_buffer(DROP_ALL)
        program = struct.pack("HP", 1, ctypes.addressof(code))
        self._listener.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, program)

    def find(self) -> None:
        self.lost = False
        self._listener.setsockopt(socket.SOL_SOCKET, SO_DETACH_FILTER, 0)

    def pause(self) -> None:
        self._sends.clear()

    def resume(self) -> None:
        self._sends.set()

    def close(self) -> None:
        self._ending.set()
        self.resume()
        self._listener.shutdown(socket.SHUT_RDWR)  # wakes accept()
        self._accepting.join()
        self._listener.close()

    def _accept(self) -> None:
        while not self._ending.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            try:
                if not connection.recv(4096):
                    return
                connection.sendall(HEAD)
                losses = self._losses
                while losses == self._losses and not self._ending.is_set():
                    self._sends.wait()
                    connection.sendall(FRAME)
                    time.sleep(0.05)
                self._ending.wait()
            except OSError:
                return


@pytest.fixture
def camera(monkeypatch: pytest.MonkeyPatch) -> Iterator[Camera]:
    monkeypatch.delenv("http_proxy", raising=False)
    made = Camera()
    yield made
    made.close()


def test_a_server_that_accepts_or_refuses_is_reachable(camera: Camera) -> None:
    assert wait_for_answer(resolve("127.0.0.1", camera.port), 10.0)
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    assert wait_for_answer(resolve("127.0.0.1", port), 10.0), "a refusal is an answer"


def test_no_route_is_no_answer_and_an_unknown_name_is_an_error() -> None:
    assert not wait_for_answer([(socket.AF_INET6, ("2001:db8::1", 9))], 0.3)
    with pytest.raises(SourceError, match=r"the host 'nowhere\.invalid' is unknown"):
        resolve("nowhere.invalid", 554)


def test_the_end_of_an_outage_is_detected_soon(camera: Camera) -> None:
    assert wait_for_answer(resolve("127.0.0.1", camera.port), 10.0)
    camera.lose()
    with closing(TcpProbe(resolve("127.0.0.1", camera.port))) as probe:
        for _ in range(2 * MAX_PENDING):
            probe.connect()
            assert not probe.answered()
    finding = threading.Timer(0.5, camera.find)
    finding.start()
    assert wait_for_answer(resolve("127.0.0.1", camera.port), 20.0)
    finding.join()


def test_an_unreachable_stream_is_reconnected_before_its_timeout(
    camera: Camera, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = make_source(SourceSpec(SourceAddress(f"http://127.0.0.1:{camera.port}/cam"), timeout=60.0))
    source.open()
    for _ in range(5):
        source.read()
    camera.lose()
    checks: list[float] = []

    class Counted(TcpProbe):
        """Lets packets flow again once the source has long found that nobody answers."""

        def answered(self, timeout: float = 0.0) -> bool:
            checks.append(time.monotonic())
            answered = super().answered(timeout)
            if camera.lost and checks[-1] - checks[0] > 2 * UNREACHABLE_AFTER:
                camera.find()
            return answered

    monkeypatch.setattr("edgemeta.daemon.capture.sources.stream.TcpProbe", Counted)
    with pytest.raises(SourceError, match="was unreachable; reconnecting"):  # noqa: PT012
        while True:
            source.read()  # frames may be under way
    source.close()
    source.open()
    assert source.read().pixels.shape == (48, 64, 3)
    source.close()


def test_a_slow_reachable_camera_is_not_reconnected(camera: Camera) -> None:
    source = make_source(SourceSpec(SourceAddress(f"http://127.0.0.1:{camera.port}/cam"), timeout=60.0))
    source.open()
    source.read()
    camera.pause()  # it sends nothing, and still takes every connection
    resuming = threading.Timer(UNREACHABLE_AFTER + 0.5, camera.resume)
    resuming.start()
    while resuming.is_alive():
        source.read()
    source.read()
    source.close()


def test_no_probes_behind_a_proxy(camera: Camera, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the proxy may be in reach."""
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{camera.port}")
    source = make_source(SourceSpec(SourceAddress("http://camera.invalid/cam"), timeout=20.0))
    source.open()
    assert source.read().pixels.shape == (48, 64, 3)
    source.close()
