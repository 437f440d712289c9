"""Searches within a budget for the bytes of the weights."""

from itertools import product
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from edgemeta.toolchain.errors import SearchError
from edgemeta.toolchain.search.budget import Budget, assign
from edgemeta.toolchain.search.evaluator import prepare
from edgemeta.toolchain.search.objective import Costs, bits_of
from edgemeta.toolchain.search.result import best, best_of, outcomes
from edgemeta.toolchain.search.run import RESULT, search
from edgemeta.toolchain.search.sensitivity import space_of

Entry = list[tuple[int, int]]
entries = st.lists(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 20)), min_size=1, max_size=4), max_size=5)


@pytest.mark.parametrize("scheme", ["fixed", "binary"])
def test_every_trial_keeps_the_budget(config: Any, tmp_path: Path, scheme: str) -> None:
    limit = {"fixed": 250, "binary": 760}[scheme]
    searched = search(config(scheme=scheme, budget_bytes=limit, rungs=[]), tmp_path)
    assert searched.budget == limit
    sizes = [trial.user_attrs[RESULT]["packed_bytes"] for trial in searched.trials]
    assert len(sizes) == 8
    assert max(sizes) <= limit
    found = outcomes(searched.trials)
    both = best_of(found)
    assert min(each["objective"] for each in both.values()) == round(best(found).objective, 6)
    assert both["assignment"]["trial"] < 3  # the seeds
    assert {each.found_by for each in found} == {"assignment", "sampler"}


def test_the_bytes_are_those_of_the_definitions(config: Any) -> None:
    given = config(scheme="fixed", times_smaller=8)
    network = prepare(given, lambda _: None).network
    costs = Costs(network)
    assert costs.float_bytes == 4 * (6 * 27 + 8 * 54 + 3 * 8)
    bits = bits_of({f"weights.{name}": width for name, width in zip(network.layers, (2, 5, 3), strict=True)})
    assert [costs.packed_bytes(name, bits.weights[name]) for name in network.layers] == [41, 270, 9]  # 324 bits: 41
    assert Budget(given, costs, space_of(given, network)).limit == 4 * 618 // 8


def test_the_nearest_choice_is_the_nearest(config: Any) -> None:
    given = config(scheme="fixed", weights=[2, 4, 8], features=[6], budget_bytes=240)
    network = prepare(given, lambda _: None).network
    costs, space = Costs(network), space_of(given, network)
    budget = Budget(given, costs, space)
    choices = [dict(zip(space, values, strict=True)) for values in product(*space.values())]
    within = [choice for choice in choices if _bytes(costs, choice) <= 240]
    assert 0 < len(within) < len(choices)

    def steps(one: dict[str, int], other: dict[str, int]) -> int:
        return sum(abs(values.index(one[name]) - values.index(other[name])) for name, values in space.items())

    for choice in choices:
        nearest = budget.nearest(choice)
        assert nearest in within
        assert steps(choice, nearest) == min(steps(choice, each) for each in within)


def _bytes(costs: Costs, choice: dict[str, int]) -> int:
    return sum(costs.packed_bytes(name, width) for name, width in bits_of(choice).weights.items())


def test_a_budget_that_no_network_keeps(config: Any, tmp_path: Path) -> None:
    with pytest.raises(SearchError, match="budget_bytes leaves 100 bytes for the weights, expected at least 155"):
        search(config(scheme="fixed", budget_bytes=100), tmp_path)
    with pytest.raises(ValidationError, match="found budget_bytes and times_smaller, expected one of them"):
        config(budget_bytes=100, times_smaller=4)


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
