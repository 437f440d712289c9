"""V4L2 as the kernel's own header has it, devices that answer and that do not, and this machine's GStreamer."""

import errno
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from edgemeta.cli.doctor import video
from edgemeta.toolchain.child import in_child

HEADER = """
#include <linux/videodev2.h>
#include <stddef.h>
#include <stdio.h>
#define PRINT(x) printf("%llu\\n", (unsigned long long)(x))
int main(void) {
  PRINT(VIDIOC_QUERYCAP); PRINT(VIDIOC_ENUM_FMT);
  PRINT(sizeof(struct v4l2_capability)); PRINT(offsetof(struct v4l2_capability, capabilities));
  PRINT(sizeof(struct v4l2_fmtdesc)); PRINT(offsetof(struct v4l2_fmtdesc, pixelformat));
  PRINT(V4L2_CAP_VIDEO_CAPTURE | V4L2_CAP_VIDEO_CAPTURE_MPLANE); PRINT(V4L2_CAP_VIDEO_M2M | V4L2_CAP_VIDEO_M2M_MPLANE);
  PRINT(V4L2_CAP_DEVICE_CAPS);
  PRINT(V4L2_BUF_TYPE_VIDEO_CAPTURE); PRINT(V4L2_BUF_TYPE_VIDEO_CAPTURE_MPLANE);
  PRINT(V4L2_BUF_TYPE_VIDEO_OUTPUT); PRINT(V4L2_BUF_TYPE_VIDEO_OUTPUT_MPLANE);
}
"""


def test_constants_and_structures_are_those_of_the_header(tmp_path: Path) -> None:
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler (Debian package gcc)")
    (tmp_path / "a.c").write_text(HEADER)
    subprocess.run([compiler, tmp_path / "a.c", "-o", tmp_path / "a"], check=True)
    found = [int(line) for line in subprocess.check_output([tmp_path / "a"], text=True).split()]
    assert found == [
        *(video.QUERYCAP, video.ENUM_FMT),
        *(video.CAPABILITY.size, 16 + 32 + 32 + 4, video.DESCRIPTION.size, 12 + 32),
        *(video.PICTURES, video.CODEC, video.HAS_DEVICE_CAPS),
        *(*video.CAPTURE_TYPES, *video.OUTPUT_TYPES),
    ]


def driver(device_caps: int, formats: Mapping[int, tuple[str, ...]]) -> Callable[[int, bytes], bytes]:
    """What a kernel answers; formats: by the type of buffer."""

    def control(request: int, structure: bytes) -> bytes:
        if request == video.QUERYCAP:
            everything = device_caps | video.HAS_DEVICE_CAPS | 0x05000000 | video.PICTURES
            return video.CAPABILITY.pack(b"uvcvideo", b"HD Webcam", b"usb-1.2", 7, everything, device_caps, 0, 0, 0)
        index, kind, *_ = video.DESCRIPTION.unpack(structure)
        if index >= len(formats.get(kind, ())):
            raise OSError(errno.EINVAL, "end")
        code = int.from_bytes(formats[kind][index].encode(), "little")
        return video.DESCRIPTION.pack(index, kind, 0, b"name", code, 0, 0, 0, 0)

    return control


def test_a_camera_gives_pictures() -> None:
    found = video.described(driver(0x1, {1: ("MJPG", "YUYV")}))
    assert (found.kind, found.card, found.driver, found.formats) == (
        "camera",
        "HD Webcam",
        "uvcvideo",
        ["MJPG", "YUYV"],
    )


def test_a_decoder_takes_compressed_pictures_and_an_encoder_is_neither() -> None:
    decoder = video.described(driver(0x4000, {10: ("H264", "NV12", "HEVC"), 9: ("NV12",)}))
    assert (decoder.kind, decoder.formats) == ("decoder", ["H264", "HEVC"])
    assert video.described(driver(0x4000, {10: ("NV12",), 9: ("H264",)})).kind == "other"


def test_metadata_of_a_camera_is_no_camera() -> None:
    assert video.described(driver(0x00800000, {1: ("MJPG",)})).kind == "other"


def test_a_file_that_is_no_device_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "video0").touch()
    with pytest.raises(OSError, match="Inappropriate ioctl"):
        video.video_device(tmp_path / "video0")


def test_a_device_of_others_is_unreadable(tmp_path: Path) -> None:
    (tmp_path / "video0").touch(mode=0o000)

    def as_nobody() -> str:
        if os.geteuid() == 0:  # who may open everything
            os.setuid(65534)
        return video.video_device(tmp_path / "video0").kind

    assert in_child(as_nobody, None, 20) == "unreadable"


def test_devices_are_sorted_by_number(tmp_path: Path) -> None:
    for name in ("video10", "video2", "videos", "video-codec"):
        (tmp_path / name).touch()
    assert [path.name for path in video.devices(tmp_path)] == ["video2", "video10"]


def test_gstreamer_of_this_machine() -> None:
    program = shutil.which("gst-inspect-1.0")
    if program is None:
        pytest.skip("no GStreamer (Debian package gstreamer1.0-tools)")
    found = video.gstreamer()
    assert found is not None
    assert found.version in subprocess.check_output([program, "--version"], text=True)
    for name in ("v4l2src", "nvarguscamerasrc"):
        exists = subprocess.run([program, "--exists", name], check=False).returncode == 0
        assert (name in found.elements) == exists
