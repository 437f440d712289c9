"""A network camera, RTSP or HTTP (MJPEG or any container FFmpeg knows), through OpenCV's FFmpeg."""

import cv2

from edgemeta.daemon.sources.abandon import AbandonableReader
from edgemeta.daemon.sources.api import SourceError, SourceSpec
from edgemeta.daemon.sources.opencv import OpenCvCapture
from edgemeta.daemon.sources.registry import without_password


class StreamSource(AbandonableReader):
    """A live stream. The server sets the pace: reading slower would only let frames grow old at the server."""

    interval_ns = 0

    def __init__(self, spec: SourceSpec) -> None:
        name = f"stream {without_password(spec.address)}"
        if spec.fps is not None:
            raise SourceError(f"{name} has a pace of its own, expected no `fps` beside it")
        milliseconds = round(spec.timeout * 1000)
        limits = {cv2.CAP_PROP_OPEN_TIMEOUT_MSEC: milliseconds, cv2.CAP_PROP_READ_TIMEOUT_MSEC: milliseconds}
        super().__init__(name, spec.timeout, lambda: OpenCvCapture(name, spec.address, cv2.CAP_FFMPEG, limits))
