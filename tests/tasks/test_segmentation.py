"""Labels of cells, their shares, and which cells show the frame."""

import math

import numpy as np
import pytest

from edgemeta.model.preprocess import placement
from edgemeta.model.tasks import Segmentation
from edgemeta.tasks.numbers import sigmoid
from edgemeta.tasks.results import reader
from edgemeta.tasks.segmentation import NO_LABEL, SegmentationReader, Segments, cells_of_numbers, in_picture, runs
from tests.tasks.models import colour_map_model

COLOURS = Segmentation(("red", "green", "blue"))
RNG = np.random.default_rng(0)


@pytest.mark.parametrize("is_raw", [False, True])
def test_a_cell_has_the_label_of_its_greatest_integer_the_first_at_a_tie(is_raw: bool) -> None:
    model = colour_map_model(COLOURS, is_raw=is_raw)
    integers = RNG.integers(-3, 3, (8, 8, 3)).astype(model.output_types[0].dtype)
    expected = [[max(range(3), key=lambda c: (cell[c], -c)) for cell in row] for row in integers.tolist()]
    assert SegmentationReader(model).cells(integers).tolist() == expected
    assert cells_of_numbers(COLOURS, integers * 0.5).tolist() == expected
    found = reader(model)([integers]).cells
    assert found is not None
    assert found.tolist() == expected


@pytest.mark.parametrize("threshold", [0.001, 0.3, 0.5, 0.999])
@pytest.mark.parametrize("is_raw", [False, True])
def test_one_label_is_where_its_sigmoid_reaches_the_threshold(is_raw: bool, threshold: float) -> None:
    task = Segmentation(("person",), threshold)
    model = colour_map_model(task, 16, is_raw=is_raw)
    (step,), reader = model.steps("map"), SegmentationReader(model)
    edge = round(math.log(threshold / (1 - threshold)) / step)
    integers = np.arange(edge - 128, edge + 128).clip(model.output_types[0].lo, model.output_types[0].hi)
    integers = integers.astype(model.output_types[0].dtype).reshape(16, 16, 1)
    scores = sigmoid(step * integers[..., 0].astype(np.float64))
    sure = abs(scores - threshold) > 1e-12
    expected = np.where(scores >= threshold, 0, NO_LABEL)
    assert (reader.cells(integers) == expected)[sure].all()
    assert sure.sum() >= sure.size - 1
    assert (cells_of_numbers(task, step * integers) == expected)[sure].all()


def test_no_integer_reaches_a_threshold_beyond_the_type() -> None:
    model = colour_map_model(Segmentation(("person",), 0.999), is_raw=False)
    small = SegmentationReader(model)
    assert (small.cells(np.full((8, 8, 1), -128, np.int8)) == NO_LABEL).all()
    assert (small.cells(np.full((8, 8, 1), 127, np.int8)) == 0).all()


@pytest.mark.parametrize(
    ("crop", "frame", "rows", "columns", "box"),
    [
        ("full", (30, 50), 8, 8, (0, 0, 50, 30)),
        ("letterbox", (40, 80), 4, 8, (0, 0, 80, 40)),
        ("center", (40, 80), 8, 8, (20, 0, 60, 40)),
        ("letterbox", (1, 800), 1, 8, None),
    ],
)
def test_cells_count_whose_centres_lie_in_the_frame(crop, frame, rows, columns, box) -> None:  # type: ignore[no-untyped-def]
    model = colour_map_model(COLOURS, crop=crop)
    place = placement(model.preprocessing, model.input, (*frame, 3))
    found = in_picture(np.arange(64, dtype=np.int16).reshape(8, 8), (8, 8), place)
    assert found.cells.shape == (rows, columns)
    if box is not None:
        assert found.box == pytest.approx(box)


def test_shares_are_of_the_cells_and_ranked() -> None:
    cells = np.array([[0, 0, 2, -1], [2, 2, 2, -1]], np.int16)
    segments = Segments(cells, (0.0, 0.0, 4.0, 2.0))
    assert segments.shares(4).tolist() == [0.25, 0, 0.5, 0]
    assert segments.ranked("abcd") == (("c", 0.5), ("a", 0.25))
    assert segments.ranked("abcd", 0.3) == (("c", 0.5),)


@pytest.mark.parametrize(("side", "most"), [(1, 4), (5, 5), (7, 3), (513, 64)])
def test_coarse_cells_are_those_in_the_middle(side: int, most: int) -> None:
    cells = np.arange(side, dtype=np.int16)[np.newaxis].repeat(3, axis=0)
    count = min(side, most)
    expected = [math.floor((2 * i + 1) * side / (2 * count)) for i in range(count)]
    assert Segments(cells, (0.0, 0.0, 1.0, 1.0)).coarse(most)[0].tolist() == expected


def test_runs_give_back_the_cells() -> None:
    for _ in range(20):
        cells = RNG.integers(-1, 2, (RNG.integers(1, 6), RNG.integers(1, 6))).astype(np.int16)
        flat = runs(cells)
        assert np.repeat(flat[::2], flat[1::2]).tolist() == cells.ravel().tolist()
        assert all(a != b for a, b in zip(flat[::2], flat[2::2], strict=False))
