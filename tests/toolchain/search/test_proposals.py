"""Steps from good trials."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from edgemeta.toolchain.search.proposals import step_from

SPACE = {"a": (2, 4, 8), "b": (3, 4, 5, 6), "c": (7,)}
PARENTS = [{"a": 2, "b": 3, "c": 7}, {"a": 4, "b": 6, "c": 7}]


def _steps(one: dict[str, int], other: dict[str, int]) -> list[int]:
    return [abs(values.index(one[name]) - values.index(other[name])) for name, values in SPACE.items()]


@given(st.integers(0, 2**32))
def test_a_step_moves_one_or_two_numbers_by_one_place(seed: int) -> None:
    found = step_from(PARENTS, SPACE, lambda choice: choice, set(), np.random.default_rng(seed))
    assert found is not None
    assert any(max(steps := _steps(found, parent)) == 1 and sum(steps) in (1, 2) for parent in PARENTS)
    assert found == step_from(PARENTS, SPACE, lambda choice: choice, set(), np.random.default_rng(seed))


def test_what_was_tried_is_not_tried_again() -> None:
    tried = {(4, 3, 7), (2, 4, 7)}
    for seed in range(30):
        found = step_from(PARENTS[:1], SPACE, lambda choice: choice, tried, np.random.default_rng(seed))
        assert found == {"a": 4, "b": 4, "c": 7}
    everything = tried | {(4, 4, 7)}
    assert step_from(PARENTS[:1], SPACE, lambda choice: choice, everything, np.random.default_rng(1)) is None


def test_nothing_to_move() -> None:
    dice = np.random.default_rng(1)
    assert step_from([], SPACE, lambda choice: choice, set(), dice) is None
    assert step_from([{"c": 7}], {"c": (7,)}, lambda choice: choice, set(), dice) is None


def test_a_step_beyond_the_budget_is_moved_into_it() -> None:
    dice = np.random.default_rng(1)
    found = step_from(PARENTS[:1], SPACE, lambda choice: {**choice, "a": 2}, {(2, 3, 7)}, dice)
    assert found == {"a": 2, "b": 4, "c": 7}
