"""Spans beside a plain set."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from edgemeta.daemon.mqtt.outbox.spans import Spans


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 30), st.integers(1, 10))))
def test_it_contains_the_same_numbers_as_a_set(steps: list[tuple[bool, int, int]]) -> None:
    spans, numbers = Spans(), set[int]()
    for removes, number, width in steps:
        if removes and (piece := spans.first_piece(width)):
            spans.remove(*piece)
            numbers -= set(range(piece[0], piece[1] + 1))
        else:
            spans.add(number)
            numbers.add(number)
        assert len(spans) == len(numbers)
        assert [one for one in range(-1, 33) if one in spans] == sorted(numbers)
        for one in range(-1, 33):
            end = spans.end_of_run(one)
            assert set(range(one + 1, end + 1)) <= numbers
            assert end + 1 not in numbers
        listed = list(spans)
        assert all(later[0] > earlier[1] + 1 for earlier, later in pairwise(listed))


def test_a_million_answers_in_order_take_one_span() -> None:
    spans = Spans()
    for number in range(1, 1_000_001):
        spans.add(number)
    assert list(spans) == [(1, 1_000_000)]


def test_the_middle_of_a_span() -> None:
    spans = Spans()
    for number in range(10):
        spans.add(number)
    spans.remove(3, 5)
    assert list(spans) == [(0, 2), (6, 9)]
    assert len(spans) == 7
