"""The knapsack beside every choice there is, and in sizes that nobody can try out."""

from itertools import product
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemeta.toolchain.search.assignment import assign

Entry = list[tuple[int, int]]

entries = st.lists(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 20)), min_size=1, max_size=4), max_size=5)


def _brute(given: list[Entry], budget: int) -> tuple[float, float]:
    """Least cost within the budget, and the least size of those that have it."""
    sums = ((sum(c for c, _ in each), sum(s for _, s in each)) for each in product(*given))
    return min((each for each in sums if each[1] <= budget), default=(inf, inf))


def _found(given: list[Entry], budget: int) -> tuple[float, float]:
    choice = assign([[c for c, _ in each] for each in given], [[s for _, s in each] for each in given], budget)
    if choice is None:
        return inf, inf
    taken = [each[option] for each, option in zip(given, choice, strict=True)]
    return sum(c for c, _ in taken), sum(s for _, s in taken)


@given(entries, st.integers(0, 100))
def test_it_is_the_best_of_all_choices(given: list[Entry], budget: int) -> None:
    assert _found(given, budget) == _brute(given, budget)


@given(
    st.lists(st.lists(st.tuples(st.floats(0, 1e6), st.integers(0, 9)), min_size=1, max_size=3), max_size=4),
    st.integers(0, 36),
)
def test_real_costs(given: list[list[tuple[float, int]]], budget: int) -> None:
    found = assign([[c for c, _ in each] for each in given], [[s for _, s in each] for each in given], budget)
    costs = [sum(c for c, _ in each) for each in product(*given) if sum(s for _, s in each) <= budget]
    if found is None:
        assert not costs
        return
    taken = [each[option] for each, option in zip(given, found, strict=True)]
    assert sum(s for _, s in taken) <= budget
    assert sum(c for c, _ in taken) == pytest.approx(min(costs), rel=1e-8, abs=1e-8)


def test_no_entry_at_all() -> None:
    assert assign([], [], 0) == []


def test_a_hundred_layers_of_seven_widths() -> None:
    """Beside the plain dynamic programming over every number of bytes, on whole costs."""
    rng = np.random.default_rng(1)
    costs = np.sort(rng.integers(0, 1000, (100, 7)), 1)[:, ::-1]
    sizes = rng.integers(1, 40, (100, 1)) * np.arange(2, 9)
    budget = int(sizes[:, 2].sum())
    least = np.zeros(budget + 1)
    for c, s in zip(costs, sizes, strict=True):
        shifted = [np.concatenate((np.full(min(s[v], budget + 1), inf), least))[: budget + 1] + c[v] for v in range(7)]
        least = np.minimum.reduce(shifted)
    found = assign(costs.tolist(), sizes.tolist(), budget)
    assert found is not None
    rows = range(100)
    assert sizes[rows, found].sum() <= budget
    assert costs[rows, found].sum() == least[budget]
