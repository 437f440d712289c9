"""Network cameras: a real RTSP server, and MJPEG over HTTP; one that stops, one that stalls."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import cv2
import numpy as np
import pytest

from edgemeta.daemon.capture.source import SourceError, SourceSpec
from edgemeta.daemon.capture.sources.registry import make_source
from edgemeta.daemon.capture.sources.stream import StreamSource
from edgemeta.daemon.config.source_address import SourceAddress

JPEG = cv2.imencode(".jpg", np.full((48, 64, 3), (0, 0, 255), np.uint8))[1].tobytes()


class Camera(BaseHTTPRequestHandler):
    """MJPEG as cheap network cameras send it; stalls after `pictures` pictures until the server closes."""

    pictures = 1000
    closing = threading.Event()

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "multipart/x-mixed-replace; boundary=frame")
        self.end_headers()
        try:
            for _ in range(self.pictures):
                self.wfile.write(b"--frame\r\nContent-Type: image/jpeg\r\n")
                self.wfile.write(f"Content-Length: {len(JPEG)}\r\n\r\n".encode() + JPEG + b"\r\n")
                if self.closing.wait(0.02):
                    return
        except OSError:
            return  # the client left
        self.closing.wait()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def mjpeg() -> Iterator[Callable[[int], str]]:
    """Starts an MJPEG camera that gives so many pictures, and returns its address."""
    servers: list[tuple[ThreadingHTTPServer, threading.Event]] = []

    def start(pictures: int) -> str:
        closing = threading.Event()
        handler = type("Handler", (Camera,), {"pictures": pictures, "closing": closing})
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        servers.append((server, closing))
        return f"http://127.0.0.1:{server.server_port}/stream.mjpg"

    yield start
    for server, closing in servers:
        closing.set()
        server.shutdown()
        server.server_close()


def test_mjpeg_over_http(mjpeg: Callable[[int], str]) -> None:
    source = make_source(SourceSpec(SourceAddress(mjpeg(1000)), timeout=10))
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
    source = make_source(SourceSpec(SourceAddress(f"rtsp://user:geheim@127.0.0.1:{port}/cam"), timeout=5))
    source.open()
    with pytest.raises(SourceError, match=rf"stream rtsp://127.0.0.1:{port} cannot be opened"):
        source.read()
    source.close()


def test_fps_with_a_stream_is_refused() -> None:
    with pytest.raises(SourceError, match="sets its own frame rate"):
        make_source(SourceSpec(SourceAddress("rtsp://cam/1"), fps=5))


def test_an_rtsp_camera_that_stops_and_returns(rtsp_server: Callable[[int], Any], free_port: Callable[[], int]) -> None:
    port = free_port()
    server = rtsp_server(port)
    source = make_source(SourceSpec(SourceAddress(f"rtsp://127.0.0.1:{port}/cam"), timeout=5))
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
