"""Pictures of any sizes with boxes are scaled, put into squares, and held out by what they show."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from edgemeta.toolchain.data.boxed_images import load_boxed_images, save_boxed_images
from edgemeta.toolchain.data.boxes.pictures import BoxedPicture, BoxedPictures, held_out_pictures
from edgemeta.toolchain.errors import DataError

LABELS = ("red", "blue")


def returned(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return pixels


def picture(height: int, width: int, box: tuple[int, int, int, int], source: str = "") -> BoxedPicture:
    """A red rectangle in a black picture."""
    x0, y0, x1, y1 = box
    pixels = np.zeros((height, width, 3), np.uint8)
    pixels[y0:y1, x0:x1, 0] = 255
    return BoxedPicture(
        name=f"{box}",
        read=partial(returned, pixels),
        boxes=np.array([box], np.float32),
        classes=np.array([0]),
        difficult=np.array([False]),
        known=np.array([True, False]),
        source=source,
    )


@given(st.data(), st.integers(20, 90), st.integers(20, 90), st.sampled_from([(32, 32), (64, 64), (64, 96)]))
def test_boxes_follow_their_objects(data: st.DataObject, height: int, width: int, size: tuple[int, int]) -> None:
    x0, y0 = data.draw(st.integers(0, width - 8)), data.draw(st.integers(0, height - 8))
    x1, y1 = data.draw(st.integers(x0 + 7, width)), data.draw(st.integers(y0 + 7, height))
    side = data.draw(st.sampled_from([24, 48, 100]))
    read = BoxedPictures(LABELS, (picture(height, width, (x0, y0, x1, y1)),)).read(side)
    assert max(read.pictures[0].pixels.shape) <= max(side, 3)
    images = read.letterboxed(size, 128)
    rows, columns = np.nonzero((images.x[0, ..., 0] > 200) & (images.x[0, ..., 1] < 100))
    found = np.array([columns.min(), rows.min(), columns.max() + 1, rows.max() + 1])
    # what rounding of both sizes, and an enlarged pixel's edge, may move
    step = 1 + max(size) / min(side, max(height, width))
    assert np.abs(found - images.boxes[0]).max() <= step
    beside = np.all(images.x[0] == 128, axis=-1)
    shown = size[1] * height / (size[0] * width)  # how much higher than the image the picture would be at its width
    assert beside.mean() == pytest.approx(1 - min(shown, 1 / shown), abs=2.5 / min(size))


def test_what_is_known_and_difficult_is_kept_in_an_archive(tmp_path: Path) -> None:
    path = tmp_path / "boxes.npz"
    images = BoxedPictures(LABELS, (picture(20, 20, (1, 1, 9, 9)), picture(20, 30, (2, 2, 9, 9)))).read(32)
    data = images.letterboxed((32, 32), 128)
    save_boxed_images(data, path)
    again = load_boxed_images(path)
    assert again.sha256() == data.sha256()
    assert again.take(np.array([1])).known is not None
    other = load_boxed_images(path, labels=("blue", "green", "red"))
    assert other.known is not None
    assert other.known.tolist() == [[False, False, True]] * 2
    assert other.classes.tolist() == [2, 2]
    np.savez(path, **{**dict(np.load(path)), "known": np.ones(2)})
    with pytest.raises(DataError, match=r"known is float64 \(2,\), expected bool \(2, 2\)"):
        load_boxed_images(path)


def test_the_part_held_out_is_the_same_in_any_order_and_keeps_copies_together() -> None:
    many = tuple(picture(20, 20, (1, 1, 8 + i, 9)) for i in range(10) for _ in range(2))
    training, part = held_out_pictures(BoxedPictures(LABELS, many), 0.3, 1, Path("data"))
    names = {each.name for each in part.pictures}
    assert len(names) == len(part) / 2
    assert not names & {each.name for each in training.pictures}
    again = held_out_pictures(BoxedPictures(LABELS, many[::-1]), 0.3, 1, Path("data"))[1]
    assert {each.name for each in again.pictures} == names
    with pytest.raises(DataError, match="data: has 1 pictures with boxes, expected at least 2"):
        held_out_pictures(BoxedPictures(LABELS, many[:1]), 0.3, 1, Path("data"))


def test_sources_can_be_left_out() -> None:
    pictures = BoxedPictures(LABELS, (picture(20, 20, (1, 1, 9, 9), "a"), picture(20, 20, (1, 1, 9, 9), "b")))
    assert [each.source for each in pictures.without(["a"]).pictures] == ["b"]
