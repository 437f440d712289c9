"""An archive of JPEG files with boxes is read; a damaged one is refused in one sentence."""

from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from edgemeta.toolchain.data.boxes.archive import load_box_archive
from edgemeta.toolchain.errors import DataError


def members(**changes: Any) -> dict[str, Any]:
    """Two pictures of 24x16 pixels with two boxes and one."""
    files = [cv2.imencode(".jpg", np.full((16, 24, 3), grey, np.uint8))[1].ravel() for grey in (50, 150)]
    made: dict[str, Any] = {
        "jpeg": np.concatenate(files),
        "offsets": np.cumsum([0, *map(len, files)]).astype(np.uint32),
        "boxes": np.array([[0, 0, 8, 8], [4, 4, 20, 16], [1, 1, 5, 5]], np.float32),
        "box_image": np.array([1, 0, 0], np.int32),
        "box_label": np.array([0, 1, 0], np.uint8),
        "labels": np.array(["cat", "dog"]),
        "difficult": np.array([1, 0, 0], np.uint8),
        "labelled": np.array([[True, True], [True, False]]),
        "source": np.array([0, 1]),
        "sources": np.array(["street", "yard"]),
        "name": np.array(["a", "b"]),
    }
    return {key: value for key, value in (made | changes).items() if value is not None}


def saved(folder: Path, **changes: Any) -> Path:
    path = folder / "boxes.npz"
    np.savez(path, **members(**changes))
    return path


def test_pictures_have_their_boxes(tmp_path: Path) -> None:
    pictures = load_box_archive(saved(tmp_path))
    first, second = pictures.pictures
    assert first.boxes.tolist() == [[4, 4, 20, 16], [1, 1, 5, 5]]
    assert (first.classes.tolist(), second.classes.tolist()) == ([1, 0], [0])
    assert (first.source, second.source, second.name) == ("street", "yard", "b")
    assert second.difficult.tolist() == [True]
    assert second.known.tolist() == [True, False]
    assert abs(int(second.read().mean()) - 150) <= 2


def test_without_the_optional_members_all_is_known(tmp_path: Path) -> None:
    given = dict.fromkeys(["difficult", "labelled", "source", "sources", "name"])
    first = load_box_archive(saved(tmp_path, **given)).pictures[0]
    assert first.known.all()
    assert not first.difficult.any()
    assert (first.name, first.source) == ("0", "")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"offsets": None}, "has no offsets, expected jpeg, offsets, boxes"),
        ({"offsets": np.array([0, 9, 5])}, "offsets run from 0 to 5 and do not always increase"),
        ({"boxes": np.zeros((3, 3), np.float32)}, r"boxes is float32 \(3, 3\), expected numbers \[boxes, 4\]"),
        ({"offsets": np.array(7)}, r"offsets is \w+ \(\), expected integers \[images \+ 1\]"),
        ({"jpeg": np.zeros(9)}, r"jpeg is float64 \(9,\), expected uint8 \[bytes\]"),
        ({"box_image": np.array([0, 0, 2])}, "box_image run from 0 to 2, expected 0..1"),
        ({"box_label": np.array([0, 0, 2])}, "box_label run from 0 to 2, expected 0..1"),
        ({"box_label": np.array([0, 0, -1])}, "box_label run from -1 to 0, expected 0..1"),
        ({"box_label": np.array([0, 0.5, 1])}, r"box_label is float64 \(3,\), expected integers \[3\]"),
        ({"boxes": np.array([[0, 0, 8, 8], [9, 4, 4, 16], [1, 1, 5, 5]], np.float32)}, "picture 0: box 0 is"),
        ({"labelled": np.ones((2, 3))}, r"labelled is \(2, 3\), expected \(2, 2\)"),
        ({"source": np.array([0, 2])}, "source run from 0 to 2, expected 0..1"),
        ({"source": np.array([0, -1])}, "source run from -1 to 0, expected 0..1"),
    ],
)
def test_a_damaged_archive_is_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        load_box_archive(saved(tmp_path, **changes))


def test_a_picture_that_cannot_be_decoded_is_named(tmp_path: Path) -> None:
    path = saved(tmp_path, jpeg=np.zeros(int(members()["offsets"][-1]), np.uint8))
    with pytest.raises(DataError, match=r"boxes.npz: picture 1 cannot be decoded, expected a JPEG file"):
        load_box_archive(path).pictures[1].read()
