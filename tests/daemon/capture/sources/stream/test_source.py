"""Network cameras: a real RTSP server, and MJPEG over HTTP; one that stops, one that stalls."""

import contextlib
import errno
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from edgemeta.daemon.capture.reduction import Reduction
from edgemeta.daemon.capture.retry import Retry
from edgemeta.daemon.capture.source import SourceError, SourceSpec
from edgemeta.daemon.capture.sources.registry import make_source
from edgemeta.daemon.capture.sources.stream.process import FORK_SERVER
from edgemeta.daemon.capture.sources.stream.source import StreamSource
from edgemeta.daemon.config.camera import CameraConfig
from edgemeta.daemon.config.source_address import SourceAddress
from rig.waiting import wait_until

JPEG = cv2.imencode(".jpg", np.full((48, 64, 3), (0, 0, 255), np.uint8))[1].tobytes()


class Camera(BaseHTTPRequestHandler):
    """MJPEG as cheap network cameras send it; stalls after `pictures` pictures until the server closes."""

    pictures = 1000
    jpegs = (JPEG,)
    closing = threading.Event()

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "multipart/x-mixed-replace; boundary=frame")
        self.end_headers()
        try:
            for number in range(self.pictures):
                jpeg = self.jpegs[number % len(self.jpegs)]
                self.wfile.write(b"--frame\r\nContent-Type: image/jpeg\r\n")
                self.wfile.write(f"Content-Length: {len(jpeg)}\r\n\r\n".encode() + jpeg + b"\r\n")
                if self.closing.wait(0.02):
                    return
        except OSError:
            return  # the client left
        self.closing.wait()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def serve() -> Iterator[Callable[[type[Camera]], str]]:
    """Starts an HTTP server with a handler, and returns its address."""
    servers: list[tuple[ThreadingHTTPServer, threading.Event]] = []

    def start(handler: type[Camera]) -> str:
        closing = threading.Event()
        server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (handler,), {"closing": closing}))
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        servers.append((server, closing))
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server, closing in servers:
        closing.set()
        server.shutdown()
        server.server_close()


@pytest.fixture
def mjpeg(serve: Any) -> Callable[[int], str]:
    """Starts an MJPEG camera that gives so many pictures, and returns its address."""
    return lambda pictures: serve(type("Handler", (Camera,), {"pictures": pictures})) + "/stream.mjpg"


@pytest.fixture
def mjpeg_of(serve: Any) -> Callable[[list[bytes]], str]:
    """Starts an MJPEG camera that gives these pictures in turn, and returns its address."""
    return lambda pictures: serve(type("Handler", (Camera,), {"jpegs": pictures})) + "/stream.mjpg"


def test_mjpeg_over_http(mjpeg: Callable[[int], str]) -> None:
    source = make_source(SourceSpec(SourceAddress(mjpeg(1000)), timeout=20))
    assert isinstance(source, StreamSource)
    assert source.interval_ns == 0
    source.open()
    try:
        pixels = source.read().pixels
        assert pixels.shape == (48, 64, 3)
        assert pixels[24, 32, 2] > 200 > pixels[24, 32, 0]
    finally:
        source.close()


def test_a_stalled_stream_is_an_error_after_its_timeout(mjpeg: Callable[[int], str]) -> None:
    source = make_source(SourceSpec(SourceAddress(mjpeg(30)), timeout=2.0))
    source.open()
    source.read()
    begun = time.monotonic()
    with pytest.raises(SourceError, match=r"stream http://127.0.0.1:\d+ gave no f"):  # noqa: PT012
        while True:
            begun = time.monotonic()
            source.read()
    assert time.monotonic() - begun < 20.0, "FFmpeg's own limit is 30 s"
    source.close()


def test_a_missing_server() -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    source = make_source(SourceSpec(SourceAddress(f"rtsp://user:geheim@127.0.0.1:{port}/cam"), timeout=20))
    source.open()
    with pytest.raises(SourceError, match=rf"stream rtsp://127.0.0.1:{port} refused the connection"):
        source.read()
    source.close()


STATUSES = {
    "/401": ("refused the login (401 Unauthorized)", Retry.LATE),
    "/403": ("refused the access (403 Forbidden)", Retry.LATE),
    "/404": ("has no such stream (404 Not Found)", Retry.SOON),
    "/418": ("answered with the status 418", Retry.SOON),
    "/503": ("answered with the status 503", Retry.SOON),
    "/html": ("gives no video that can be decoded", Retry.SOON),
    "/empty": ("gives no video that can be decoded", Retry.SOON),
    "/large": (r"gives pictures of 16000x16000 pixels, expected at most 40 million pixels", Retry.SOON),
    "/endless": ("MiB or more, expected at most 64 MiB", Retry.SOON),
}


class Answers(Camera):
    """An HTTP server that answers by path."""

    requests: list[str] = []  # noqa: RUF012 - one list per server, set by the fixture

    def do_GET(self) -> None:
        self.requests.append(self.path)
        if self.path[1:].isdecimal():
            self.send_error(int(self.path[1:]))
            return
        if self.path.startswith("/snapshot"):
            self._send("image/jpeg", JPEG)
        elif self.path == "/html":
            self._send("text/html", b"<html>A camera's page</html>" * 100)
        elif self.path == "/empty":
            self.jpegs = (b"\xff\xd8no picture\xff\xd9",)
            super().do_GET()
        elif self.path == "/large":
            at = JPEG.index(b"\xff\xc0") + 5  # of height and width in the frame header
            enough = bytes(1 << 20)  # a decoder takes no size that the bytes cannot fill
            self.jpegs = (JPEG[:at] + (16000).to_bytes(2, "big") * 2 + JPEG[at + 4 : -2] + enough + JPEG[-2:],)
            super().do_GET()
        elif self.path == "/endless":
            with contextlib.suppress(OSError):
                self._send_part(b"\xff\xd8", claimed=2_000_000_000)
                while not self.closing.is_set():
                    self.wfile.write(bytes(1 << 20))
        else:
            super().do_GET()

    def _send(self, kind: str, content: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _send_part(self, content: bytes, claimed: int | None = None) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "multipart/x-mixed-replace; boundary=frame")
        self.end_headers()
        length = len(content) if claimed is None else claimed
        self.wfile.write(f"--frame\r\nContent-Type: image/jpeg\r\nContent-Length: {length}\r\n\r\n".encode() + content)


@pytest.fixture
def answers(serve: Any) -> tuple[str, list[str]]:
    """Address of a server that answers by path, and the paths that were asked for."""
    requests: list[str] = []
    return serve(type("Handler", (Answers,), {"requests": requests})), requests


@pytest.mark.parametrize("path", STATUSES)
def test_each_cause_has_its_reason(answers: tuple[str, list[str]], path: str) -> None:
    reason, retry = STATUSES[path]
    source = make_source(SourceSpec(SourceAddress(f"{answers[0].replace('//', '//user:geheim@')}{path}"), timeout=20))
    source.open()
    try:
        with pytest.raises(SourceError, match=re.escape(reason)) as raised:
            source.read()
    finally:
        source.close()
    assert raised.value.retry is retry
    assert "geheim" not in str(raised.value)


def test_a_login_that_is_corrected_in_its_file(answers: tuple[str, list[str]], tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("wrong\n")
    config = CameraConfig(source=f"{answers[0]}/401", username="u", password_file=str(file))
    source = make_source(SourceSpec.of(config))
    source.open()
    with pytest.raises(SourceError, match="refused the login") as raised:
        source.read()
    source.close()
    assert raised.value.changed is not None
    assert not raised.value.changed()
    file.write_text("right\n")
    assert raised.value.changed()


def test_an_unknown_host() -> None:
    source = make_source(SourceSpec(SourceAddress("rtsp://nohost.invalid/cam"), timeout=20))
    source.open()
    with pytest.raises(SourceError, match=r"has an unknown host, 'nohost\.invalid' \("):
        source.read()
    source.close()


@pytest.mark.parametrize("path", ["/snapshot", "/snapshot.jpg", "/snapshot.jpg?channel=1"])
def test_a_snapshot_address_is_asked_for_pictures(answers: tuple[str, list[str]], path: str) -> None:
    address, requests = answers
    source = make_source(SourceSpec(SourceAddress(f"{address}{path}"), fps=2, timeout=20))
    source.open()
    for _ in range(5):
        assert source.read().pixels.shape == (48, 64, 3)
    assert source.interval_ns == 500_000_000
    asked = len(requests)
    time.sleep(0.3)
    assert len(requests) == asked  # not before a picture is due: it would show the past
    assert len(requests) in (5, 6)
    source.close()


def test_a_stream_of_another_size(mjpeg_of: Callable[[list[bytes]], str]) -> None:
    wide = cv2.imencode(".jpg", np.zeros((64, 128, 3), np.uint8))[1].tobytes()
    source = make_source(SourceSpec(SourceAddress(mjpeg_of([JPEG, wide])), timeout=20))
    source.open()
    shapes = {source.read().pixels.shape for _ in range(20)}
    source.close()
    assert shapes == {(48, 64, 3), (64, 128, 3)}


def test_silent_cameras_do_not_delay_a_healthy_one(mjpeg: Callable[[int], str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        waiting = [
            make_source(SourceSpec(SourceAddress(f"{kind}://127.0.0.1:{silent.getsockname()[1]}/cam"), timeout=60))
            for kind in ("rtsp", "http")
        ]
        for each in waiting:
            each.open()
        healthy = make_source(SourceSpec(SourceAddress(mjpeg(1000)), timeout=20))
        began = time.monotonic()
        healthy.open()
        healthy.read()
        assert time.monotonic() - began < 20, "the others wait for 60 s"
        for each in (*waiting, healthy):
            each.close()


def test_a_process_that_dies_is_one_cameras_failure(mjpeg: Callable[[int], str]) -> None:
    first, second = (make_source(SourceSpec(SourceAddress(mjpeg(100_000)), timeout=20)) for _ in range(2))
    for each in (first, second):
        each.open()
        each.read()
    os.kill(first._process._id, signal.SIGSEGV)  # type: ignore[attr-defined]
    with pytest.raises(SourceError, match=r"ended its process unexpectedly \(SIGSEGV\)"):  # noqa: PT012
        while True:
            first.read()  # what had been said before
    first.close()
    first.open()
    first.read()
    second.read()
    for each in (first, second):
        each.close()


def test_the_parent_of_the_processes_is_started_again(mjpeg: Callable[[int], str]) -> None:
    source = make_source(SourceSpec(SourceAddress(mjpeg(100_000)), timeout=20))
    source.open()
    source.read()
    assert FORK_SERVER._process is not None
    FORK_SERVER._process.kill()
    with pytest.raises(SourceError, match="lost its process with the parent of all streams"):  # noqa: PT012
        while True:
            source.read()  # what had been said before
    source.close()
    source.open()
    source.read()
    source.close()


def test_without_a_process_it_is_this_camera_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(FORK_SERVER, "start", refuse)
    source = make_source(SourceSpec(SourceAddress("rtsp://127.0.0.1:9/"), timeout=20))
    with pytest.raises(SourceError, match=r"has no process of its own: Resource temporarily unavailable"):
        source.open()
    source.close()


def test_a_decoder_that_hangs_is_killed(mjpeg: Callable[[int], str]) -> None:
    source = make_source(SourceSpec(SourceAddress(mjpeg(100_000)), timeout=60))
    assert isinstance(source, StreamSource)
    source.open()
    source.read()
    assert source._process is not None
    process = source._process._id
    os.kill(process, signal.SIGSTOP)
    source._spec = replace(source._spec, timeout=0.3)
    with pytest.raises(SourceError, match=r"gave no frame for 0\.3 s"):  # noqa: PT012
        while True:
            source.read()  # what had been decoded before
    source.close()
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


def test_no_process_is_left_where_the_service_is_killed(mjpeg: Callable[[int], str]) -> None:
    program = (
        "import sys, time\n"
        "from edgemeta.daemon.capture.source import SourceSpec\n"
        "from edgemeta.daemon.capture.sources.registry import make_source\n"
        "from edgemeta.daemon.config.source_address import SourceAddress\n"
        "source = make_source(SourceSpec(SourceAddress(sys.argv[1]), timeout=20))\n"
        "source.open()\nsource.read()\nprint(source._process._id, flush=True)\ntime.sleep(60)\n"
    )
    address = mjpeg(100_000).replace("//", "//user:geheim@")
    with subprocess.Popen([sys.executable, "-c", program, address], stdout=subprocess.PIPE, text=True) as service:
        assert service.stdout is not None
        process = int(service.stdout.readline())
        for name in ("cmdline", "environ"):
            assert b"geheim" not in Path(f"/proc/{process}/{name}").read_bytes()
        service.kill()
    wait_until(lambda: not Path(f"/proc/{process}").exists(), "the process to end")


def test_a_service_that_ends_at_once_leaves_no_words() -> None:
    program = (
        "import os\n"
        "from edgemeta.daemon.capture.source import SourceSpec\n"
        "from edgemeta.daemon.capture.sources.registry import make_source\n"
        "from edgemeta.daemon.config.source_address import SourceAddress\n"
        "sources = [make_source(SourceSpec(SourceAddress('rtsp://127.0.0.1:9/'), timeout=20)) for _ in range(20)]\n"
        "for source in sources:\n    source.open()\n    source.close()\n"
        "source.open()\nos._exit(0)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_fps_is_for_snapshots(mjpeg: Callable[[int], str]) -> None:
    with pytest.raises(SourceError, match="sets its own frame rate"):
        make_source(SourceSpec(SourceAddress("http://cam/1"), fps=0))
    source = make_source(SourceSpec(SourceAddress(mjpeg(1000)), fps=5, timeout=20))
    source.open()
    with pytest.raises(SourceError, match="sets its own frame rate, expected no `fps`, which is for snapshots"):
        source.read()
    source.close()


def test_fps_with_a_stream_is_refused() -> None:
    with pytest.raises(SourceError, match="sets its own frame rate"):
        make_source(SourceSpec(SourceAddress("rtsp://cam/1"), fps=5))


def test_an_rtsp_camera_that_stops_and_returns(rtsp_server: Callable[[int], Any], free_port: Callable[[], int]) -> None:
    port = free_port()
    server = rtsp_server(port)
    source = make_source(SourceSpec(SourceAddress(f"rtsp://127.0.0.1:{port}/cam"), timeout=20))
    source.open()
    assert source.read().pixels.shape == (240, 320, 3)
    server.kill()
    with pytest.raises(SourceError, match=r"gives no more frames|gave no frame"):  # noqa: PT012 - frames may be under way
        for _ in range(1000):
            source.read()
    source.close()
    rtsp_server(port)
    source.open()
    assert source.read().pixels.shape == (240, 320, 3)
    source.close()


@pytest.mark.parametrize(("most", "size"), [(2, (24, 32, 3)), (4, (12, 16, 3)), (8, (6, 8, 3))])
def test_reduced_pictures(mjpeg: Callable[[int], str], most: int, size: tuple[int, ...]) -> None:
    source = make_source(SourceSpec(SourceAddress(mjpeg(1000)), timeout=20, reduction=Reduction(most)))
    source.open()
    try:
        pixels = source.read().pixels
    finally:
        source.close()
    assert pixels.shape == size
    assert np.abs(pixels.astype(int) - (0, 0, 255)).max() <= 4
