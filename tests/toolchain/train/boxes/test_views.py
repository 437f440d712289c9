"""Views keep boxes around what they show, and know no more than was annotated."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemeta.toolchain.data.boxes.pictures import ReadPicture
from edgemeta.toolchain.train.boxes.network import STRIDES
from edgemeta.toolchain.train.boxes.views import BoxViewSettings, cells, draw_view

SIZE = 96, 128
PLAIN = BoxViewSettings(mosaic=0.0, brightness=0.0, contrast=0.0, saturation=0.0, dark=0.0, gray=0.0)


def read_picture(seed: int, known: tuple[bool, bool] = (True, True), difficult: bool = False) -> ReadPicture:
    """One white rectangle in black."""
    rng = np.random.default_rng(seed)
    height, width = rng.integers(40, 120, 2).tolist()
    x0, y0 = int(rng.integers(0, width - 20)), int(rng.integers(0, height - 20))
    x1, y1 = int(rng.integers(x0 + 16, width)), int(rng.integers(y0 + 16, height))
    pixels = np.zeros((height, width, 3), np.uint8)
    pixels[y0:y1, x0:x1] = 255
    box = np.array([[x0, y0, x1, y1]], np.float32)
    return ReadPicture(pixels, box, np.array([seed % 2]), np.array([difficult]), np.array(known))


@given(st.integers(0, 10_000))
def test_a_box_is_around_its_object(seed: int) -> None:
    view = draw_view([read_picture(seed)], 0, SIZE, PLAIN, np.random.default_rng(seed))
    assert view.pixels.shape == (*SIZE, 3)
    bright = view.pixels[..., 0] > 200
    for x0, y0, x1, y1 in view.boxes.tolist():
        rows, columns = np.nonzero(bright)
        found = (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1)
        assert np.abs(np.array(found) - (x0, y0, x1, y1)).max() <= 5  # the parts that are cut have whole pixels


@given(st.integers(0, 10_000))
def test_boxes_of_a_mosaic_are_inside_and_large_enough(seed: int) -> None:
    pictures = [read_picture(seed + number) for number in range(5)]
    view = draw_view(pictures, 0, SIZE, BoxViewSettings(mosaic=1.0), np.random.default_rng(seed))
    assert (view.boxes >= 0).all()
    assert (view.boxes <= [SIZE[1], SIZE[0]] * 2).all()
    assert ((view.boxes[:, 2:] - view.boxes[:, :2]) >= 3).all()
    assert len(view.boxes) == len(view.classes) <= 4


def test_the_same_numbers_give_the_same_view() -> None:
    pictures = [read_picture(number) for number in range(4)]
    first, second = (draw_view(pictures, 1, SIZE, BoxViewSettings(), np.random.default_rng(7)) for _ in range(2))
    assert (first.pixels == second.pixels).all()
    assert (first.known == second.known).all()


@pytest.mark.parametrize("seed", range(20))
def test_cells_of_a_picture_do_not_know_what_was_not_annotated(seed: int) -> None:
    view = draw_view([read_picture(seed, known=(True, False))], 0, SIZE, PLAIN, np.random.default_rng(seed))
    assert view.known[:, 0].all() or not len(view.boxes)
    shown = (view.pixels != 128).any(-1)
    columns, rows = (cells(SIZE)[:, :2].astype(np.int64)).T
    # scaling makes greys at the object's edges, so a cell is asked about the area that is shown around it
    assert not view.known[shown[rows, columns], 1].any()
    assert view.known[~shown[rows, columns] & ~_touches(shown, rows, columns), 1].all()


def _touches(shown: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    inside = np.nonzero(shown)
    box = inside[1].min(), inside[0].min(), inside[1].max(), inside[0].max()
    result: np.ndarray = (columns >= box[0]) & (columns <= box[2]) & (rows >= box[1]) & (rows <= box[3])
    return result


def test_cells_near_a_difficult_box_do_not_know_its_label() -> None:
    view = draw_view([read_picture(3, difficult=True)], 0, SIZE, PLAIN, np.random.default_rng(3))
    assert not len(view.boxes)
    assert view.known[:, 0].all()
    assert not view.known[:, 1].all()
    bright = view.pixels[..., 0] > 200
    columns, rows = (cells(SIZE)[:, :2].astype(np.int64)).T
    assert not view.known[bright[rows, columns], 1].any()


def test_cells_are_those_of_all_grids() -> None:
    every = cells((64, 64))
    assert len(every) == sum((64 // stride) ** 2 for stride in STRIDES)
    assert every[0].tolist() == [4, 4, 8]
    assert every[-1].tolist() == [48, 48, 32]
