"""When an object has crossed a line, and when it only trembles on it or goes around it."""

import pytest

from edgemeta.tasks.tracking.lines import Crossings, Line, Point, Side

UP = Line((100, 200), (100, 0))
"""From below to above: right is where x grows."""


def crossed(line: Line, *points: Point, margin: int = 4) -> list[Side | None]:
    crossings = Crossings()
    return [crossings.move(line, point, margin) for point in points]


@pytest.mark.parametrize(("line", "side"), [(UP, "right"), (Line(UP.second, UP.first), "left")])
def test_it_says_to_which_side(line: Line, side: Side) -> None:
    assert crossed(line, (80, 100), (120, 100)) == [None, side]


def test_an_object_that_trembles_on_the_line_crosses_it_once() -> None:
    way = [(80, 100), (98, 100), (103, 100), (97, 100), (102, 100), (110, 100), (99, 100), (110, 100)]
    assert crossed(UP, *way) == [None, None, None, None, None, "right", None, None]


def test_there_and_back_is_two_crossings() -> None:
    assert crossed(UP, (80, 100), (120, 100), (80, 90)) == [None, "right", "left"]


def test_who_goes_around_the_end_does_not_cross() -> None:
    assert crossed(UP, (80, 250), (120, 250)) == [None, None]
    assert crossed(UP, (80, 250), (120, 250), (80, 100)) == [None, None, "left"]


def test_a_way_through_an_end_crosses() -> None:
    assert crossed(UP, (80, 200), (120, 200)) == [None, "right"]
