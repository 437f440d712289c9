"""Whether a server can be reached, and a stream whose packets get lost for a while."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing

import cv2
import numpy as np
import pytest

from edgemeta.daemon.sources.api import SourceError, SourceSpec
from edgemeta.daemon.sources.knocks import GREATEST_PENDING, Knocks, look_up, wait_for_answer
from edgemeta.daemon.sources.registry import make_source

JPEG = cv2.imencode(".jpg", np.full((48, 64, 3), (0, 0, 255), np.uint8))[1].tobytes()
HEAD = b"HTTP/1.0 200 OK\r\nContent-Type: multipart/x-mixed-replace; boundary=frame\r\n\r\n"
PICTURE = b"--frame\r\nContent-Type: image/jpeg\r\nContent-Length: %d\r\n\r\n" % len(JPEG) + JPEG + b"\r\n"


class Camera:
    """Sends a picture every 50 ms to whoever asks. Once it is lost, the kernel drops what begins a connection.

    That is what it does for a program whose queue of connections is full, so that no packet filter is needed. Streams
    of before stay silent for good, as TCP lets them be for long.
    """

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=0)
        self.port = int(self._listener.getsockname()[1])
        self._flows = threading.Event()
        self._flows.set()
        self._fillers: list[socket.socket] = []
        self._losses = 0
        self._ending = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def lose(self) -> None:
        self._losses += 1
        self._flows.clear()
        for _ in range(3):
            self._fillers.append(socket.socket())
            self._fillers[-1].setblocking(False)
            self._fillers[-1].connect_ex(("127.0.0.1", self.port))

    def find(self) -> None:
        for filler in self._fillers:
            filler.close()
        self._flows.set()

    def close(self) -> None:
        self._ending.set()
        self.find()
        self._listener.close()

    def _accept(self) -> None:
        while not self._ending.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()
            self._flows.wait()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            try:
                if not connection.recv(4096):
                    return
                connection.sendall(HEAD)
                losses = self._losses
                while losses == self._losses and not self._ending.is_set():
                    self._flows.wait()
                    connection.sendall(PICTURE)
                    time.sleep(0.05)
                self._ending.wait()
            except OSError:
                return


@pytest.fixture
def camera() -> Iterator[Camera]:
    made = Camera()
    yield made
    made.close()


def test_a_server_that_listens_or_refuses_is_reached(camera: Camera) -> None:
    assert wait_for_answer(look_up("127.0.0.1", camera.port), 10.0)
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    assert wait_for_answer(look_up("127.0.0.1", port), 10.0), "a refusal is an answer"


def test_no_way_is_no_answer_and_a_name_that_leads_nowhere_is_told() -> None:
    assert not wait_for_answer([(socket.AF_INET6, ("2001:db8::1", 9))], 0.3)
    with pytest.raises(SourceError, match=r"the host 'nowhere\.invalid' is not known"):
        look_up("nowhere.invalid", 554)


def test_it_answers_soon_after_packets_flow_again(camera: Camera) -> None:
    assert wait_for_answer(look_up("127.0.0.1", camera.port), 10.0)
    camera.lose()
    with closing(Knocks(look_up("127.0.0.1", camera.port))) as knocks:
        for _ in range(2 * GREATEST_PENDING):
            knocks.knock()
            assert not knocks.answered()
    finding = threading.Timer(0.5, camera.find)
    finding.start()
    assert wait_for_answer(look_up("127.0.0.1", camera.port), 20.0)
    finding.join()


def test_a_stream_that_was_out_of_reach_is_begun_anew_before_its_timeout(camera: Camera) -> None:
    source = make_source(SourceSpec(f"http://127.0.0.1:{camera.port}/cam", timeout=60.0))
    source.open()
    for _ in range(5):
        source.read()
    camera.lose()
    finding = threading.Timer(2.5, camera.find)
    finding.start()
    with pytest.raises(SourceError, match="was out of reach, its connection is begun anew"):  # noqa: PT012
        while True:
            source.read()  # pictures may be under way
    finding.join()
    source.close()
    source.open()
    assert source.read().pixels.shape == (48, 64, 3)
    source.close()


def test_a_slow_camera_that_can_be_reached_is_waited_for(camera: Camera) -> None:
    source = make_source(SourceSpec(f"http://127.0.0.1:{camera.port}/cam", timeout=60.0))
    source.open()
    source.read()
    camera._flows.clear()  # it sends nothing, and the kernel still takes a connection or two for it
    resuming = threading.Timer(1.2, camera._flows.set)
    resuming.start()
    begun = time.monotonic()
    while time.monotonic() - begun < 2.0:
        source.read()
    resuming.join()
    source.close()


def test_behind_a_proxy_nobody_knocks(camera: Camera, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the proxy may be in reach."""
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{camera.port}")
    source = make_source(SourceSpec("http://camera.invalid/cam", timeout=20.0))
    source.open()
    assert source.read().pixels.shape == (48, 64, 3)
    source.close()
