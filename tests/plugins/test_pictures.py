"""Picture files: what is read, and what is refused before a decoder sees it."""

import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest

from edgemeta.model.errors import FrameError
from edgemeta.plugins.pictures import read_picture

PIXELS = np.arange(5 * 7 * 3, dtype=np.uint8).reshape(5, 7, 3)
PNG = cv2.imencode(".png", PIXELS)[1].tobytes()


def test_a_png_is_read_with_whatever_lies_behind_it(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(PNG + b"more")
    assert np.array_equal(read_picture(tmp_path / "a.png"), PIXELS)


@pytest.mark.parametrize("cut", [8, 20, len(PNG) // 2, len(PNG) - 1])
def test_a_truncated_png_is_refused(cut: int, tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(PNG[:cut])
    with pytest.raises(FrameError, match=rf"a\.png is a PNG truncated or damaged: {cut} bytes"):
        read_picture(tmp_path / "a.png")


def test_a_png_that_claims_gigabytes_is_refused(tmp_path: Path) -> None:
    """The decoder would take them: seen with a file of 69 bytes and 4 GB."""
    place = PNG.index(b"IDAT") - 4
    (tmp_path / "a.png").write_bytes(PNG[:place] + b"\x7f\xff\xff\xff" + PNG[place + 4 :])
    with pytest.raises(FrameError, match="truncated or damaged"):
        read_picture(tmp_path / "a.png")


def test_a_picture_that_claims_too_many_pixels_is_refused(tmp_path: Path) -> None:
    jpeg = cv2.imencode(".jpg", PIXELS)[1].tobytes()
    place = jpeg.index(b"\xff\xc0") + 5  # of height and width in the frame header
    (tmp_path / "a.jpg").write_bytes(jpeg[:place] + (16000).to_bytes(2, "big") * 2 + jpeg[place + 4 :])
    program = "import sys, edgemeta; from pathlib import Path; from edgemeta.plugins.pictures import read_picture\n"
    program += "read_picture(Path(sys.argv[1]))"  # OpenCV reads its limit when it is first imported
    command = [sys.executable, "-c", program, str(tmp_path / "a.jpg")]
    reported = subprocess.run(command, capture_output=True, text=True, check=False).stderr
    assert "a.jpg claims a size that is too large, expected at most 134 million pixels\n" in reported
