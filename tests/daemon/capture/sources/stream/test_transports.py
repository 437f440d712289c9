"""How streams come: RTSP over TCP and UDP, RTMP, MPEG-TS over UDP; what a server refuses is named."""

import itertools
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from fractions import Fraction
from typing import Any

import av
import numpy as np
import pytest

from edgemeta.daemon.capture.source import SourceError, SourceSpec
from edgemeta.daemon.capture.sources.registry import make_source
from edgemeta.daemon.capture.sources.stream.source import StreamSource
from edgemeta.daemon.config.camera import CameraConfig
from edgemeta.daemon.config.source_address import SourceAddress
from tests.daemon.capture.sources.stream.rtmp_server import RATE, rtmp_server


def shape_of(address: str, **keys: Any) -> tuple[int, ...]:
    """Shape of the second frame of a stream."""
    source = make_source(SourceSpec(SourceAddress(address), timeout=20, **keys))
    source.open()
    with closing(source):
        source.read()
        return source.read().pixels.shape


@contextmanager
def sent(address: str) -> Iterator[None]:
    """Send MPEG-TS with pictures of 64x48 pixels over UDP."""
    ended = threading.Event()

    def send() -> None:
        with av.open(address, "w", format="mpegts") as container:
            stream = container.add_stream("mpeg2video", rate=RATE)
            stream.width, stream.height, stream.pix_fmt, stream.time_base = 64, 48, "yuv420p", Fraction(1, RATE)
            stream.gop_size = 5
            began, pts = time.monotonic(), -1
            for number in itertools.count():
                frame = av.VideoFrame.from_ndarray(np.full((72, 64), number % 200 + 20, np.uint8), "yuv420p")
                pts = frame.pts = max(pts + 1, round((time.monotonic() - began) * RATE))  # as on a camera's clock
                container.mux(stream.encode(frame))
                if ended.wait(1 / RATE):
                    return

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@pytest.mark.parametrize("transport", ["tcp", "udp"])
def test_rtsp_over_a_transport(transport: Any, rtsp_server: Callable[[int], Any], free_port: Callable[[], int]) -> None:
    port = free_port()
    rtsp_server(port)
    assert shape_of(f"rtsp://127.0.0.1:{port}/cam", transport=transport) == (240, 320, 3)


def test_mpeg_ts_over_udp(free_port: Callable[[], int]) -> None:
    port = free_port()
    with sent(f"udp://127.0.0.1:{port}?pkt_size=1316"):
        assert shape_of(f"udp://127.0.0.1:{port}") == (48, 64, 3)


def test_a_picture_on_demand_is_the_newest_one(free_port: Callable[[], int]) -> None:
    """Between two questions nothing is decoded, and the second answer is as new as the question."""
    address = f"udp://127.0.0.1:{free_port()}"
    source = StreamSource(SourceSpec(SourceAddress(address), timeout=20, on_demand=True))
    with sent(address), closing(source):
        source.open()
        source.open_stream()
        first = source.read()
        began = time.monotonic()
        while time.monotonic() - began < 1.5:
            source.look(0.1)
        second = source.read()
    assert first.stream_ns is not None
    assert second.stream_ns is not None
    passed = (second.captured_ns - first.captured_ns) / 1e9
    assert (second.stream_ns - first.stream_ns) / 1e9 > passed - 0.5  # the first may have waited in the kernel
    assert first.skipped == second.skipped == 0


def test_rtmp() -> None:
    with rtmp_server() as address:
        assert shape_of(address) == (48, 64, 3)


def test_the_transport_is_what_the_server_is_asked_for() -> None:
    """A server that answers the questions of RTSP up to the transport, which it refuses."""
    asked: list[str] = []
    sdp = "v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=-\r\nm=video 0 RTP/AVP 96\r\na=rtpmap:96 H264/90000\r\na=control:1\r\n"

    def serve(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection, connection.makefile("rw", newline="") as lines:
            while line := lines.readline():
                verb = line.split()[0]
                headers = dict(one.split(": ", 1) for one in iter(lambda: lines.readline().strip(), ""))
                asked.append(headers.get("Transport", ""))
                status, body = ("461 Unsupported Transport", "") if verb == "SETUP" else ("200 OK", "")
                body = sdp if verb == "DESCRIBE" else body
                lines.write(f"RTSP/1.0 {status}\r\nCSeq: {headers['CSeq']}\r\nPublic: DESCRIBE, SETUP, PLAY\r\n")
                lines.write(f"Content-Type: application/sdp\r\nContent-Length: {len(body)}\r\n\r\n{body}")
                lines.flush()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        address = f"rtsp://127.0.0.1:{listener.getsockname()[1]}/cam"
        source = make_source(SourceSpec.of(CameraConfig(source=address, transport="multicast", frame_timeout=20)))
        source.open()
        with closing(source), pytest.raises(SourceError, match=r"refused the `transport` of the frames \(461"):
            source.read()
        thread.join()
    assert any("multicast" in each for each in asked)
