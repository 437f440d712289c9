"""Tiles of a region, and what they show merged."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemeta.model.preprocess import Placement, Rectangle
from edgemeta.tasks.detection.objects import Object
from edgemeta.tasks.keypoints import Keypoint
from edgemeta.tasks.tiles import MAX_OVERLAP, best_labels, cut, in_frame, merge


@given(st.integers(1, 300), st.integers(1, 300), st.integers(1, 6), st.integers(1, 6), st.floats(0, MAX_OVERLAP))
def test_tiles_cover_the_region_and_overlap(height: int, width: int, rows: int, columns: int, overlap: float) -> None:
    rows, columns = min(rows, height), min(columns, width)
    tiles = cut(Rectangle(7, 11, height, width), rows, columns, overlap)
    assert len(tiles) == rows * columns
    assert len({(tile.height, tile.width) for tile in tiles}) == 1
    seen = np.zeros((height, width), int)
    for tile in tiles:
        assert 7 <= tile.top <= tile.top + tile.height <= 7 + height
        assert 11 <= tile.left <= tile.left + tile.width <= 11 + width
        seen[tile.top - 7 : tile.top - 7 + tile.height, tile.left - 11 : tile.left - 11 + tile.width] += 1
    assert seen.min() == 1 or (seen.min() > 1 and overlap > 0)
    for a, b in pairwise(tiles):
        if a.top == b.top:  # neighbours
            assert a.left + a.width - b.left >= int(overlap * a.width - 1e-6) - 1


def test_two_by_two() -> None:
    tiles = cut(Rectangle(0, 0, 100, 200), 2, 2, 0.0)
    assert tiles == tuple(Rectangle(top, left, 50, 100) for top in (0, 50) for left in (0, 100))
    third = cut(Rectangle(10, 20, 90, 180), 2, 1, 0.2)
    assert third == (Rectangle(10, 20, 50, 180), Rectangle(50, 20, 50, 180))


def test_points_and_outlines_go_with_their_object() -> None:
    """An input of half the tile's size; what is outside of the tile is moved to its edge."""
    placement = Placement(2.0, 2.0, 0.0, 10.0, 100, 80)
    found = Object("a", 0.5, (1.0, 2.0, 3.0, 4.0), (Keypoint("nose", 5.0, -50.0, 0.25),), ((1.0, 2.0), (3.0, 99.0)))
    (moved,) = in_frame([found], placement, Rectangle(7, 11, 100, 80))
    assert moved.box == (13.0, 21.0, 17.0, 25.0)
    assert moved.keypoints == (Keypoint("nose", 21.0, 7.0, 0.25),)
    assert moved.outline == ((13.0, 21.0), (17.0, 107.0))


def test_wrong_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="0 x 2 tiles of a region of 4 x 4 pixels"):
        cut(Rectangle(0, 0, 4, 4), 0, 2)
    with pytest.raises(ValueError, match="5 x 2 tiles"):
        cut(Rectangle(0, 0, 4, 4), 5, 2)
    with pytest.raises(ValueError, match=r"overlap by 0\.95, expected 0 \.\. 0\.9"):
        cut(Rectangle(0, 0, 4, 4), 2, 2, 0.95)


def person(score: float, *box: float, label: str = "person") -> Object:
    x0, y0, x1, y1 = box
    return Object(label, score, (x0, y0, x1, y1))


def test_objects_move_to_the_frame() -> None:
    placement = Placement(2.0, 0.5, -10.0, 4.0, 100, 100)
    inside, outside = person(0.5, 10, 20, 30, 40), person(0.9, 0, 0, 4, 4)
    assert in_frame([outside, inside], placement) == (person(0.5, 10, 14, 50, 24),)
    assert in_frame([inside], placement, Rectangle(100, 200, 100, 100)) == (person(0.5, 210, 114, 250, 124),)


def test_an_object_on_a_seam_is_one_object() -> None:
    """The left tile sees a part of it, the right one all of it."""
    part, whole = person(0.7, 90, 10, 100, 40), person(0.8, 90, 10, 120, 40)
    other_label, alone = person(0.6, 90, 10, 100, 40, label="dog"), person(0.5, 10, 10, 20, 20)
    assert merge([[part, other_label, alone], [whole]]) == (whole, other_label, alone)
    assert merge([[part], [whole]], overlap_threshold=0.99) == (whole,)
    half = person(0.7, 80, 10, 100, 40)  # of which exactly half is shared, as much as the threshold
    assert merge([[half], [whole]]) == (whole, half)
    assert merge([[half], [whole]], overlap_threshold=0.49) == (whole,)
    apart = person(0.7, 70, 10, 91, 40)  # shares 1 of 21 columns
    assert merge([[apart], [whole]]) == (whole, apart)


def test_labels_exclude_each_other_by_their_own_overlap() -> None:
    cat, dog = person(0.8, 10, 10, 20, 20, label="cat"), person(0.7, 10, 10, 20, 18, label="dog")  # overlap 0.8
    inside = person(0.6, 12, 12, 16, 16)
    assert merge([[cat], [dog, inside]]) == (cat, dog, inside)
    assert merge([[cat], [dog, inside]], label_overlap=0.75) == (cat, inside)
    assert merge([[cat], [dog, inside]], label_overlap=0.85) == (cat, dog, inside)
    assert merge([[cat, dog], []], label_overlap=0.75) == (cat, dog)


def test_objects_of_one_tile_do_not_exclude_each_other() -> None:
    child, parent = person(0.6, 20, 20, 30, 30), person(0.8, 10, 10, 40, 50)
    assert merge([[parent, child], []]) == (parent, child)
    assert merge([[parent], [child]]) == (parent,)


def test_the_order_is_by_score_then_tile() -> None:
    a, b, c = (person(0.5, i * 10, 0, i * 10 + 5, 5) for i in range(3))
    best = person(0.9, 50, 50, 60, 60)
    assert merge([[a], [b, best], [c]]) == (best, a, b, c)
    assert merge([[a], [b, best], [c]], max_objects=2) == (best, a)
    assert merge([[], []]) == ()


def test_labels_have_their_greatest_score() -> None:
    assert best_labels([[("a", 0.2), ("b", 0.7)], [("a", 0.9), ("c", 0.7)]]) == (("a", 0.9), ("b", 0.7), ("c", 0.7))
    assert best_labels([]) == ()
