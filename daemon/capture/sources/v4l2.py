"""A camera at a V4L2 device, such as a USB webcam: "0", "/dev/video0", "v4l2:///dev/video0?width=640&height=480"."""

from urllib.parse import parse_qsl

import cv2

from edgemeta.daemon.capture.source import SourceError, SourceSpec
from edgemeta.daemon.capture.sources.opencv import OpenCvCapture
from edgemeta.daemon.capture.sources.reader_thread import ReaderThread
from edgemeta.daemon.capture.sources.registry import parts_of
from edgemeta.daemon.config.source_address import SourceAddress

PROPERTIES = {"width": cv2.CAP_PROP_FRAME_WIDTH, "height": cv2.CAP_PROP_FRAME_HEIGHT}


class V4l2Source(ReaderThread):
    """A V4L2 device. The camera sets the frame rate; it is asked for `fps` if the spec has it."""

    interval_ns = 0

    def __init__(self, spec: SourceSpec) -> None:
        device, properties = parse(spec.address)
        if spec.fps == 0:
            raise SourceError(f"source {spec.address} sets its own frame rate, expected `fps` above 0 or none")
        if spec.fps is not None:
            properties[cv2.CAP_PROP_FPS] = max(1, round(spec.fps))
        name = f"camera {device}"
        super().__init__(name, spec.timeout, lambda: OpenCvCapture(name, device, cv2.CAP_V4L2, properties))


def parse(address: SourceAddress) -> tuple[str, dict[int, int]]:
    """Return the device's path and the properties to request. Raises SourceError."""
    if address.is_number:
        return f"/dev/video{address.rest}", {}
    parts = parts_of(address)
    if parts.netloc or not parts.path.startswith("/dev/"):
        raise SourceError(f"source {address} is not a device, expected for example v4l2:///dev/video0")
    properties = {}
    for key, value in parse_qsl(parts.query, keep_blank_values=True):
        if key not in PROPERTIES:
            raise SourceError(f"source {address} has the unknown key {key!r}, expected {' or '.join(PROPERTIES)}")
        if not (value.isascii() and value.isdecimal() and 1 <= int(value[:6]) <= 16384):
            raise SourceError(f"source {address} has the {key} {value!r}, expected 1 to 16384 pixels")
        properties[PROPERTIES[key]] = int(value)
    return parts.path, properties
