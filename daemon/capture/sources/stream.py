"""A network camera, RTSP or HTTP (MJPEG or any container FFmpeg knows), through OpenCV's FFmpeg.

Where the network drops packets for some seconds, TCP goes on late, and the later the longer it was. So the server is
knocked at (`knocks`): before its stream is opened, and while the stream is silent. A server that was out of reach and
answers again is connected to anew.
"""

import os
import time
from collections.abc import Callable
from contextlib import closing

import cv2

from edgemeta.daemon.capture.source import Frame, SourceError, SourceSpec
from edgemeta.daemon.capture.sources.opencv import OpenCvCapture
from edgemeta.daemon.capture.sources.reader_thread import ReaderThread
from edgemeta.daemon.capture.sources.registry import parts_of
from edgemeta.daemon.capture.sources.tcp_probe import EVERY, Place, TcpProbe, look_up, wait_for_answer
from edgemeta.daemon.config.source_address import without_password
from edgemeta.daemon.runtime.deadline import Deadline

PORTS = {"rtsp": 554, "rtsps": 322, "http": 80, "https": 443}

SILENT_AFTER = 0.5
"""Seconds without a frame after which the server is knocked at."""

AWAY_AFTER = 1.0
"""Seconds without an answer after which it counts as out of reach; far networks take a while. While it answers, its
camera is slow, or its program hangs: then it is asked so often."""


class StreamSource(ReaderThread):
    """A live stream. The server sets the pace: reading slower would only let frames grow old at the server."""

    interval_ns = 0

    def __init__(self, spec: SourceSpec) -> None:
        name = f"stream {without_password(spec.address)}"
        if spec.fps is not None:
            raise SourceError(f"{name} has a pace of its own, expected no `fps` beside it")
        self._spec = spec
        self._places: list[Place] = []
        self._flows = False
        super().__init__(name, spec.timeout, self._connect)

    def open(self) -> None:
        """As `Source.open`."""
        self._flows = False
        super().open()

    def _connect(self) -> OpenCvCapture:
        """Open the stream as soon as the server answers; called in a reader's thread. Raises SourceError."""
        self._places = self._look_up()
        if self._places and not wait_for_answer(self._places, self._spec.timeout):
            raise SourceError(f"{self._name} gave no answer for {self._spec.timeout:g} s")
        milliseconds = round(self._spec.timeout * 1000)
        limits = {cv2.CAP_PROP_OPEN_TIMEOUT_MSEC: milliseconds, cv2.CAP_PROP_READ_TIMEOUT_MSEC: milliseconds}
        return OpenCvCapture(self._name, self._spec.address, cv2.CAP_FFMPEG, limits)

    def _look_up(self) -> list[Place]:
        """Find where to knock; nowhere if the way leads through a proxy. Raises SourceError."""
        parts = parts_of(self._spec.address)
        if parts.scheme.startswith("http") and "http_proxy" in os.environ:
            return []
        try:
            port = parts.port or PORTS[parts.scheme]
        except ValueError as error:
            raise SourceError(f"{self._name} has no port from 0 to 65535") from error
        return look_up(parts.hostname or "", port)

    def _take(self, take: Callable[[float], Frame | None]) -> Frame | None:
        """Wait for a frame. Raises SourceError where the server was out of reach and is back."""
        first = min(SILENT_AFTER, self._timeout)
        frame = take(first)
        if frame is None:
            left = self._timeout - first
            frame = self._take_knocking(take, left) if self._flows and self._places else take(left)
        self._flows = frame is not None
        return frame

    def _take_knocking(self, take: Callable[[float], Frame | None], seconds: float) -> Frame | None:
        """Wait for a frame and knock meanwhile."""
        deadline = Deadline(seconds)
        answered_at = unanswered_at = time.monotonic()
        with closing(TcpProbe(self._places)) as knocks:
            while deadline.left:
                knocks.knock()
                frame = take(min(EVERY, deadline.left))
                if frame is not None:
                    return frame
                asked_at = time.monotonic()
                if not knocks.answered():
                    unanswered_at = asked_at
                    continue
                if unanswered_at - answered_at > AWAY_AFTER:  # found by asking: this thread may have stood still
                    raise SourceError(f"{self._name} was out of reach, its connection is begun anew")
                frame = take(min(AWAY_AFTER, deadline.left))
                if frame is not None:
                    return frame
                answered_at = unanswered_at = time.monotonic()
        return None
