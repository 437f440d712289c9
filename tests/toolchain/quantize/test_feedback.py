"""Rounding with error feedback, beside its definition: one input after the other, each error subtracted at once."""

import numpy as np
import pytest
from numpy.typing import NDArray

from edgemeta.model.layers import Conv, Dense
from edgemeta.toolchain.quantize.blocks import Block
from edgemeta.toolchain.quantize.feedback import (
    _COLUMNS,
    Feedback,
    affordable,
    feedback_of,
    round_with_feedback,
    windows_of,
)
from edgemeta.toolchain.quantize.weights import LayerWeights

Real = NDArray[np.float64]


def plain(weight: Real, scale: Real, factors: Feedback) -> NDArray[np.int8]:
    """The definition, input by input."""
    out = np.empty(weight.shape, np.int8)
    scales = np.broadcast_to(scale, (len(weight),))
    share = len(weight) // len(factors)
    for row in range(len(weight)):
        upper, left = factors[row // share], weight[row].copy()
        for j in range(weight.shape[1]):
            integer = np.clip(np.floor(left[j] / scales[row] + 0.5), -127, 127)
            out[row, j] = integer
            left[j + 1 :] -= (left[j] - integer * scales[row]) / upper[j, j] * upper[j, j + 1 :]
    return out


def moments_of(rng: np.random.Generator, groups: int, k: int) -> Real:
    """Second moments of correlated inputs."""
    inputs = rng.normal(0, 1, (groups, 2 * k, k)) + rng.normal(0, 1, (groups, 2 * k, 1))
    return np.matmul(inputs.transpose(0, 2, 1), inputs) / (2 * k)


@pytest.mark.parametrize(
    ("outputs", "k", "groups"),
    [(1, 1, 1), (6, _COLUMNS, 1), (5, _COLUMNS + 1, 1), (12, 9, 12), (16, 7 * _COLUMNS - 3, 2)],
)
def test_pieces_give_the_integers_of_the_definition(outputs: int, k: int, groups: int) -> None:
    rng = np.random.default_rng(k)
    factors = feedback_of(moments_of(rng, groups, k))
    weight = rng.normal(0, 1, (outputs, k)) * np.logspace(-3, 0, outputs)[:, None]
    for scale in (np.abs(weight).max(1) / 127, np.abs(weight).max(1) / 300, np.array([0.01])):
        assert (round_with_feedback(weight, scale, factors) == plain(weight, scale, factors)).all()


def test_halves_are_rounded_up_where_nothing_can_compensate() -> None:
    k = 2 * _COLUMNS + 5
    weight = (np.arange(4 * k).reshape(4, k) - 2 * k) * 0.5
    factors = feedback_of(np.eye(k)[np.newaxis] * 3.0)
    found = round_with_feedback(weight, np.array([1.0]), factors)
    assert (found == np.clip(np.floor(weight + 0.5), -127, 127)).all()
    assert (found == plain(weight, np.array([1.0]), factors)).all()


def test_inputs_that_are_always_zero_take_the_nearest_integers() -> None:
    weight = np.random.default_rng(2).normal(0, 1, (3, 40))
    factors = feedback_of(np.zeros((1, 40, 40)))
    assert (round_with_feedback(weight, np.array([0.02]), factors) == np.floor(weight / 0.02 + 0.5)).all()


def test_factors_are_those_of_the_damped_inverse() -> None:
    moments = moments_of(np.random.default_rng(7), 2, 50)
    for factor, moment in zip(feedback_of(moments), moments, strict=True):
        damped = moment + np.eye(50) * 0.01 * np.trace(moment) / 50
        assert (np.tril(factor, -1) == 0).all()
        assert np.allclose(factor.T @ factor @ damped, np.eye(50), atol=1e-9)


def test_the_error_that_the_inputs_make_becomes_smaller() -> None:
    rng = np.random.default_rng(11)
    weight, moments = rng.normal(0, 1, (8, 100)), moments_of(rng, 1, 100)
    scale = np.abs(weight).max(1) / 7

    def error(integers: NDArray[np.int8]) -> float:
        off = weight - integers * scale[:, None]
        return float(np.einsum("ok,kl,ol->", off, moments[0], off))

    nearest = np.floor(weight / scale[:, None] + 0.5).astype(np.int8)
    assert error(round_with_feedback(weight, scale, feedback_of(moments))) < error(nearest) / 2


def test_a_layer_is_factored_once_for_all_scales(monkeypatch: pytest.MonkeyPatch) -> None:
    factored: list[tuple[int, ...]] = []
    cholesky = np.linalg.cholesky
    monkeypatch.setattr(np.linalg, "cholesky", lambda matrix: factored.append(matrix.shape) or cholesky(matrix))
    core = Dense("d", "input", weights=np.random.default_rng(3).normal(0, 1, (4, 30)).astype(np.float32))
    plain_weights = LayerWeights([Block(core, None, None, "d", "d")])
    weights = plain_weights.copy()
    weights.fit("d", *plain_weights.real("d"), feedback_of(moments_of(np.random.default_rng(5), 1, 30)))
    results = [weights.integers("d", True, np.full(4, least)).values for least in (0.0, 0.1, 0.2)]
    assert len({each.tobytes() for each in results}) == 3
    assert factored == [(1, 30, 30)]
    assert (results[0] != plain_weights.integers("d", True, np.zeros(4)).values).any()


def test_the_smallest_layers_come_first_within_the_memory() -> None:
    def block(name: str, inputs: int) -> Block:
        return Block(Conv(name, "input", weights=np.zeros((1, 1, 1, inputs), np.float32)), None, None, name, name)

    assert affordable([block("huge", 5000), block("small", 10), block("large", 4000)]) == {"small", "large"}


@pytest.mark.parametrize("most", [4, 8, 16, 32])
def test_the_windows_of_an_image_come_from_every_column(most: int) -> None:
    """Each element is its column's number: even steps through a map of 16 columns would meet few of them."""
    columns = np.broadcast_to(np.arange(16, dtype=np.float32)[:, None], (4, 16, 16, 1))
    rows = windows_of(Conv("c", "input", weights=np.ones((1, 1, 1, 1), np.float32)), columns, most)
    assert len(np.unique(rows)) >= min(most, 16) * 3 // 4
