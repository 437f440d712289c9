"""Overlaps as fractions say, and pairs with the greatest sum, compared with all possible pairs."""

from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from edgemeta.tasks.tracking.matching import WHOLE, Integers, best_pairs, overlaps, widened

SIDE = st.integers(1, 2**20)
BOX = st.tuples(st.integers(-(2**20), 2**20), st.integers(-(2**20), 2**20), SIDE, SIDE).map(
    lambda each: (each[0], each[1], each[0] + each[2], each[1] + each[3])
)


def worth(pairs: list[tuple[int, int]], values: Integers, least: int) -> int:
    return sum(int(values[pair]) - least + 1 for pair in pairs)


@given(BOX, BOX)
def test_overlaps_are_the_fractions_rounded_down(first: tuple[int, ...], second: tuple[int, ...]) -> None:
    width = max(0, min(first[2], second[2]) - max(first[0], second[0]))
    height = max(0, min(first[3], second[3]) - max(first[1], second[1]))
    areas = [(each[2] - each[0]) * (each[3] - each[1]) for each in (first, second)]
    expected = Fraction(width * height * WHOLE, sum(areas) - width * height)
    assert overlaps(np.array([first]), np.array([second])).tolist() == [[expected.numerator // expected.denominator]]


def test_the_largest_boxes_do_not_overflow() -> None:
    largest = np.array([[-(2**22), -(2**22), 2**22 - 1, 2**22 - 1]]) // 2
    assert overlaps(largest, largest).tolist() == [[WHOLE]]


def test_boxes_are_widened_at_each_edge() -> None:
    assert widened(np.array([[0, 0, 10, 100]]), 30).tolist() == [[-3, -30, 13, 130]]


def greatest_sum(gains: list[list[int]]) -> int:
    """Over all ways to give rows columns: row after row, for each set of columns that are taken."""
    sums = {0: 0}
    for row in gains:
        more = dict(sums)
        for taken, total in sums.items():
            for column, gain in enumerate(row):
                if gain > 0 and not taken & 1 << column:
                    now = taken | 1 << column
                    more[now] = max(more.get(now, 0), total + gain)
        sums = more
    return max(sums.values())


@settings(max_examples=60)
@given(
    st.integers(0, 2**32 - 1), st.integers(1, 9), st.integers(1, 9), st.floats(0.2, 1.0), st.sampled_from([4, WHOLE])
)
def test_no_other_pairs_have_a_greater_sum(seed: int, rows: int, columns: int, share: float, greatest: int) -> None:
    random = np.random.default_rng(seed)
    values = random.integers(0, greatest, (rows, columns))
    values[random.random(values.shape) > share] = 0
    least = max(1, greatest // 10)
    pairs = best_pairs(values, least)
    assert all(values[pair] >= least for pair in pairs)
    assert len({row for row, _ in pairs}) == len({column for _, column in pairs}) == len(pairs)
    assert worth(pairs, values, least) == greatest_sum((values - least + 1).tolist())


def test_nothing_is_paired_with_nothing() -> None:
    assert best_pairs(np.zeros((3, 2), np.int64), 1) == []
