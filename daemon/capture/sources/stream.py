"""A network camera, RTSP or HTTP (MJPEG or any container FFmpeg knows), through OpenCV's FFmpeg.

After an outage of the network TCP resumes late, the later the longer the outage was. So the server is probed
(tcp_probe.py) before its stream is opened, and while the stream is silent. If a server was unreachable and answers
again, the stream is reconnected.
"""

import os
import time
from collections.abc import Callable
from contextlib import closing

import cv2

from edgemeta.daemon.capture.source import Frame, SourceError, SourceSpec
from edgemeta.daemon.capture.sources.opencv import OpenCvCapture
from edgemeta.daemon.capture.sources.reader_thread import ReaderThread
from edgemeta.daemon.capture.sources.tcp_probe import PROBE_INTERVAL, Endpoint, TcpProbe, resolve, wait_for_answer
from edgemeta.daemon.runtime.deadline import Deadline

SILENT_AFTER = 0.5
"""Seconds without a frame after which the server is probed."""

UNREACHABLE_AFTER = 1.0
"""Seconds without an answer after which a server counts as unreachable; distant networks are slow. It is also the
interval of probes while the server answers, but its camera is slow or its program hangs."""


class StreamSource(ReaderThread):
    """A live stream. The server sets the frame rate: reading more slowly would only delay the frames."""

    interval_ns = 0

    def __init__(self, spec: SourceSpec) -> None:
        name = f"stream {spec.address}"
        if spec.fps is not None:
            raise SourceError(f"{name} sets its own frame rate, expected no `fps`")
        self._spec = spec
        self._endpoints: list[Endpoint] = []
        self._flowing = False
        super().__init__(name, spec.timeout, self._connect)

    def open(self) -> None:
        """As `Source.open`."""
        self._flowing = False
        super().open()

    def _connect(self) -> OpenCvCapture:
        """Open the stream as soon as the server answers; called in a reader's thread. Raises SourceError."""
        self._endpoints = self._resolve()
        if self._endpoints and not wait_for_answer(self._endpoints, self._spec.timeout):
            raise SourceError(f"{self._name} did not answer for {self._spec.timeout:g} s")
        milliseconds = round(self._spec.timeout * 1000)
        limits = {cv2.CAP_PROP_OPEN_TIMEOUT_MSEC: milliseconds, cv2.CAP_PROP_READ_TIMEOUT_MSEC: milliseconds}
        return OpenCvCapture(self._name, self._spec.target().text, cv2.CAP_FFMPEG, limits)

    def _resolve(self) -> list[Endpoint]:
        """Return the server's endpoints, none if a proxy is used. Raises SourceError."""
        address = self._spec.address
        if address.scheme.startswith("http") and "http_proxy" in os.environ:
            return []
        return resolve(address.host, address.port)

    def _take(self, take: Callable[[float], Frame | None]) -> Frame | None:
        """Wait for a frame. Raises SourceError if the server was unreachable and answers again."""
        first = min(SILENT_AFTER, self._timeout)
        frame = take(first)
        if frame is None:
            left = self._timeout - first
            frame = self._take_probing(take, left) if self._flowing and self._endpoints else take(left)
        self._flowing = frame is not None
        return frame

    def _take_probing(self, take: Callable[[float], Frame | None], seconds: float) -> Frame | None:
        """Wait for a frame and probe the server meanwhile."""
        deadline = Deadline(seconds)
        answered_at = unanswered_at = time.monotonic()
        with closing(TcpProbe(self._endpoints)) as probe:
            while deadline.left:
                probe.connect()
                frame = take(min(PROBE_INTERVAL, deadline.left))
                if frame is not None:
                    return frame
                probed_at = time.monotonic()
                if not probe.answered():
                    unanswered_at = probed_at
                    continue
                if unanswered_at - answered_at > UNREACHABLE_AFTER:  # measured by probes: the thread may be delayed
                    raise SourceError(f"{self._name} was unreachable; reconnecting")
                frame = take(min(UNREACHABLE_AFTER, deadline.left))
                if frame is not None:
                    return frame
                answered_at = unanswered_at = time.monotonic()
        return None
