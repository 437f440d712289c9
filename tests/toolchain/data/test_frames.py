"""Pictures without labels: folders, clips, arrays."""

from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from edgemeta.toolchain.data.frames import ArrayFrames, ClipFrames, FolderFrames
from edgemeta.toolchain.errors import DataError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Eight pictures of several sizes and formats, half of them in a sub-folder, and a text."""
    (tmp_path / "more").mkdir()
    for number in range(8):
        picture = np.full((20 + number, 30, 3), 10 * number, np.uint8)
        place = tmp_path / "more" if number >= 4 else tmp_path
        cv2.imwrite(str(place / f"{number}.{'png' if number % 2 else 'JPG'}"), picture)
    (tmp_path / "notes.txt").write_text("no picture")
    return tmp_path


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    """A clip of 30 frames, of which frame i has brightness 8 i."""
    path = tmp_path / "clip.avi"
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"MJPG"), 10, (32, 24))
    for number in range(30):
        writer.write(np.full((24, 32, 3), 8 * number, np.uint8))
    writer.release()
    return path


def test_a_folder_with_its_sub_folders(folder: Path) -> None:
    frames = FolderFrames(folder, 100, pytest.fail)
    found = [(len(frame), round(float(frame.mean()))) for frame in frames]
    assert found == [(20 + number, 10 * number) for number in range(8)]
    assert len(frames) == 8


def test_some_pictures_are_evenly_chosen(folder: Path) -> None:
    assert [len(frame) for frame in FolderFrames(folder, 4, pytest.fail)] == [20, 22, 24, 26]


def test_damaged_pictures_are_reported_and_the_others_used(folder: Path) -> None:
    (folder / "2.JPG").write_bytes((folder / "2.JPG").read_bytes()[:200])
    (folder / "3.png").write_bytes(b"")
    said: list[str] = []
    assert len(list(FolderFrames(folder, 100, said.append))) == 6
    assert [sentence.rpartition("/")[2] for sentence in said] == [
        "2.JPG is a JPEG truncated after 200 bytes",
        "3.png is empty",
    ]


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"has no pictures, expected some of \.bmp, "):
        FolderFrames(tmp_path, 10, pytest.fail)


@pytest.mark.parametrize(
    ("most", "first", "last", "numbers"),
    [
        (100, 0, None, list(range(30))),
        (3, 0, None, [0, 10, 20]),
        (100, 25, None, [25, 26, 27, 28, 29]),
        (2, 10, 20, [10, 15]),
        (5, 28, 99, [28, 29]),
    ],
)
def test_frames_of_a_clip(clip: Path, most: int, first: int, last: Any, numbers: list[int]) -> None:
    frames = ClipFrames(clip, most, first, last)
    assert len(frames) == len(numbers)
    for _ in range(2):  # every pass is the same
        assert [round(float(frame.mean()) / 8) for frame in frames] == numbers


def test_wrong_clips(clip: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="has 30 frames, expected some from number 30 on"):
        ClipFrames(clip, 5, 30)
    (tmp_path / "text.avi").write_text("no video")
    with pytest.raises(DataError, match="cannot be decoded, expected a data set, a picture, a folder or a video"):
        ClipFrames(tmp_path / "text.avi", 5)


def test_arrays_become_blue_green_red() -> None:
    pixels = np.arange(2 * 2 * 2 * 3, dtype=np.uint8).reshape(2, 2, 2, 3)
    assert (np.stack(list(ArrayFrames(pixels))) == pixels[..., ::-1]).all()
