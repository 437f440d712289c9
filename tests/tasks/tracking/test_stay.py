"""Paths of a bounded length, and when an object stands still."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from edgemeta.tasks.tracking.stay import LONGEST_PATH, Path, Standstill


@given(st.integers(1, 500))
def test_a_path_has_its_first_and_its_newest_point_and_is_bounded(count: int) -> None:
    path = Path()
    for number in range(count):
        path.add((number, 0))
    places = [x for x, _ in path.points]
    assert (places[0], places[-1]) == (0, count - 1)
    assert len(places) <= LONGEST_PATH
    steps = {later - earlier for earlier, later in pairwise(places[:-1])}
    assert len(steps) <= 1


def moved(*points: tuple[int, int]) -> list[bool]:
    """Points (x, time in ms); reach 10, after 1000 ms."""
    still = Standstill()
    return [still.move((x, 0), 10, 1000, time) for x, time in points]


def test_it_has_stopped_once_it_has_been_within_reach_for_long_enough() -> None:
    assert moved((0, 0), (5, 500), (10, 999), (3, 1000), (3, 5000)) == [False, False, False, True, False]


def test_it_can_stop_again_after_it_moved() -> None:
    assert moved((0, 0), (0, 1000), (50, 1500), (50, 2500)) == [False, True, False, True]


def test_a_slow_walk_is_no_standstill() -> None:
    assert not any(moved(*((number * 6, number * 400) for number in range(50))))
