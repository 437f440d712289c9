"""Cameras and hardware decoders: what the V4L2 devices say of themselves, and which elements GStreamer has."""

import ctypes
import fcntl
import os
import re
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

from edgemeta.cli.doctor.report import Gstreamer, VideoDevice
from edgemeta.daemon.capture.sources.gst_program import LIBRARIES

QUERYCAP = 0x80685600
"""VIDIOC_QUERYCAP of linux/videodev2.h."""
CAPABILITY = struct.Struct("16s32s32s6I")
"""struct v4l2_capability: driver, card, bus, version, capabilities, device_caps, reserved."""
ENUM_FMT = 0xC0405602
"""VIDIOC_ENUM_FMT."""
DESCRIPTION = struct.Struct("3I32s5I")
"""struct v4l2_fmtdesc: index, type, flags, description, pixelformat, and four more."""

HAS_DEVICE_CAPS = 0x80000000
PICTURES = 0x1 | 0x1000
"""V4L2_CAP_VIDEO_CAPTURE, and with several planes."""
CODEC = 0x8000 | 0x4000
"""V4L2_CAP_VIDEO_M2M, and with several planes."""
CAPTURE_TYPES, OUTPUT_TYPES = (1, 9), (2, 10)
"""V4L2_BUF_TYPE_VIDEO_CAPTURE and _OUTPUT, and with several planes."""
COMPRESSED = ("H264", "S264", "HEVC", "S265", "MJPG", "JPEG", "VP80", "VP90", "AV1F")
"""Formats of pictures that a decoder takes."""
MOST_FORMATS = 64

ELEMENTS = (
    *("v4l2src", "libcamerasrc", "nvarguscamerasrc", "nvv4l2camerasrc"),
    *("v4l2h264dec", "v4l2h265dec", "v4l2slh264dec", "v4l2slh265dec", "v4l2jpegdec"),
    *("nvv4l2decoder", "nvh264dec", "nvh265dec", "nvjpegdec", "omxh264dec", "omxh265dec", "mppvideodec"),
    *("vah264dec", "vah265dec", "vaapih264dec", "vaapih265dec", "msdkh264dec", "qsvh264dec"),
)
"""Cameras, then decoders of boards, NVIDIA, Rockchip and Intel or AMD."""

Control = Callable[[int, bytes], bytes]
"""ioctl(2) on a device: request and structure to structure; raises OSError."""


def devices(folder: Path = Path("/dev")) -> list[Path]:
    """Every V4L2 device for video, by number."""
    found = (path for path in folder.glob("video*") if path.name[5:].isdecimal())
    return sorted(found, key=lambda path: int(path.name[5:]))


def video_device(path: Path) -> VideoDevice:
    """What a device says; it is opened, not started."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    except PermissionError:
        return VideoDevice(kind="unreadable", card=None, driver=None, formats=[], failure=None)
    try:
        return described(lambda request, structure: fcntl.ioctl(descriptor, request, structure))
    finally:
        os.close(descriptor)


def described(control: Control) -> VideoDevice:
    """As `video_device`, of an open device. Raises OSError."""
    driver, card, _, _, capabilities, device, *_ = CAPABILITY.unpack(control(QUERYCAP, bytes(CAPABILITY.size)))
    able = device if capabilities & HAS_DEVICE_CAPS else capabilities
    takes = [each for each in _formats(control, OUTPUT_TYPES) if each in COMPRESSED] if able & CODEC else []
    gives = list(_formats(control, CAPTURE_TYPES)) if able & PICTURES else []
    kind = "decoder" if takes else "camera" if gives else "other"
    return VideoDevice.model_validate(
        {"kind": kind, "card": _word(card), "driver": _word(driver), "formats": takes or gives, "failure": None}
    )


def _formats(control: Control, types: tuple[int, ...]) -> Iterator[str]:
    for kind in types:
        for index in range(MOST_FORMATS):
            try:
                found = control(ENUM_FMT, DESCRIPTION.pack(index, kind, 0, b"", *(0,) * 5))
            except OSError:  # the end of the list, or no such type
                break
            yield _word(DESCRIPTION.unpack(found)[4].to_bytes(4, "little"))


def _word(text: bytes) -> str:
    return text.partition(b"\0")[0].decode("ascii", "replace").strip()


def gstreamer() -> Gstreamer | None:
    """Its version and the ELEMENTS that it has; None without the library. Its plugins may crash."""
    try:
        gst = ctypes.CDLL(LIBRARIES[0])
    except OSError:
        return None
    gst.gst_version_string.restype = ctypes.c_char_p
    gst.gst_element_factory_find.restype = ctypes.c_void_p
    if not gst.gst_init_check(None, None, None):
        return None
    version = re.search(rb"\d+(?:\.\d+)*", gst.gst_version_string())
    found = [name for name in ELEMENTS if gst.gst_element_factory_find(name.encode())]
    return Gstreamer(version=version[0].decode() if version else "0", elements=found)
