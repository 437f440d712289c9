"""Which weights are frozen and released: properties of every schedule, and small cases by hand."""

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemeta.toolchain.incremental.freezing import RULES, freeze, priorities, release, release_probability, temperature

SHARES = st.lists(st.floats(0, 1), min_size=1, max_size=6).map(sorted)


@given(st.integers(1, 60), SHARES, st.integers(0, 9))
def test_masks_grow_to_the_share_and_take_the_first_by_priority(count: int, shares: list[float], seed: int) -> None:
    rng = np.random.default_rng(seed)
    frozen = np.zeros(count, dtype=bool)
    for share in shares:
        priority = rng.integers(0, 5, count).astype(np.float64)  # with ties
        after = freeze(frozen, share, priority)
        assert (after >= frozen).all()
        assert after.sum() == max(frozen.sum(), math.floor(share * count + 0.5))
        new, left = after & ~frozen, ~after
        assert priority[new].min(initial=9) >= priority[left].max(initial=-1)
        for number in np.flatnonzero(new):
            tied = left & (priority == priority[number])
            assert not tied[:number].any()  # of equal ones the first
        frozen = after


def test_steps_of_the_paper_on_ten_weights() -> None:
    frozen, counts = np.zeros((2, 5), dtype=bool), []
    for share in (0.2, 0.5, 0.7, 1.0):
        frozen = freeze(frozen, share, np.arange(10.0).reshape(2, 5))
        counts.append(int(frozen.sum()))
    assert counts == [2, 5, 7, 10]
    assert freeze(np.zeros(10, dtype=bool), 0.2, np.arange(10.0)).tolist() == [False] * 8 + [True] * 2


def test_rules_look_at_error_magnitude_or_nothing() -> None:
    weights, projected = (np.array(v, np.float32) for v in ([0.9, -0.3, 0.05, -2.0], [1.0, -0.25, 0.0, -2.0]))
    orders = {
        rule: np.argsort(-priorities(rule, weights, projected, np.random.default_rng(3))).tolist() for rule in RULES
    }
    assert orders["error"] == [0, 1, 2, 3]
    assert orders["magnitude"] == [3, 0, 1, 2]
    draws = [priorities("random", weights, projected, np.random.default_rng(seed)) for seed in (3, 3, 4)]
    assert (draws[0] == draws[1]).all()
    assert (draws[0] != draws[2]).any()


@given(st.floats(0, 100), st.integers(1, 50))
def test_the_temperature_falls_to_zero_and_with_it_the_probability(first: float, epochs: int) -> None:
    heats = [temperature(first, epoch, epochs) for epoch in range(epochs)]
    chances = [release_probability(heat) for heat in heats]
    assert heats[-1] == chances[-1] == 0
    assert heats[0] == (first if epochs > 1 else 0)
    assert all(b <= a for series in (heats, chances) for a, b in pairwise(series))
    assert all(0 <= chance < 1 for chance in chances)


def test_probability_by_hand() -> None:
    assert release_probability(1.0) == pytest.approx(0.36787944)
    assert release_probability(0.25) == pytest.approx(0.01831564)
    assert temperature(2.0, 1, 5) == Fraction(3, 2)


@given(st.floats(0, 1), st.integers(0, 9))
def test_only_frozen_weights_are_released(probability: float, seed: int) -> None:
    frozen = np.random.default_rng(7).random((4, 30)) < 0.5
    released = release(frozen, probability, np.random.default_rng(seed))
    assert not (released & ~frozen).any()
    assert (released == release(frozen, probability, np.random.default_rng(seed))).all()


def test_the_share_released_is_the_probability() -> None:
    released = release(np.ones(100_000, dtype=bool), 0.37, np.random.default_rng(1))
    assert released.mean() == pytest.approx(0.37, abs=0.005)
    assert not release(np.ones(100_000, dtype=bool), 0.0, np.random.default_rng(1)).any()
