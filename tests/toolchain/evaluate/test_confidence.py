"""Calibration error and temperature, against figures that are known."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemeta.model.layers import TensorType
from edgemeta.model.prove_task import MAX_TEMPERATURE, MIN_TEMPERATURE
from edgemeta.tasks.classification import scores
from edgemeta.toolchain.errors import QuantizeError
from edgemeta.toolchain.evaluate.confidence import calibration_error, fit_temperature

KIND = TensorType((1, 1, 4), bits=32, scale=2.0**-10)


def negative_log_likelihood(logits: Any, classes: Any, temperature: float) -> float:
    """Mean over images of -log(score of the true class); logits are integers [N, labels]."""
    shares = scores(logits, KIND, temperature)[np.arange(len(classes)), classes]
    return float(-np.log(np.maximum(shares, np.finfo(np.float64).tiny)).mean())


def drawn(temperature: float, count: int = 20_000) -> tuple[Any, Any]:
    """Integer logits, and classes drawn from their scores at a temperature: that one is right by construction."""
    rng = np.random.default_rng(3)
    logits = rng.normal(0, 2 / KIND.scale, (count, 4)).astype(np.int32)
    shares = scores(logits, KIND, temperature).cumsum(1)
    return logits, (rng.random((count, 1)) > shares).sum(1).clip(0, 3)


@pytest.mark.parametrize("temperature", [0.4, 1.0, 2.5])
def test_the_temperature_of_generated_classes_is_recovered(temperature: float) -> None:
    logits, classes = drawn(temperature)
    assert fit_temperature(logits, KIND, classes) == pytest.approx(temperature, rel=0.05)


def test_scores_are_calibrated_at_the_fitted_temperature() -> None:
    logits, classes = drawn(2.5)
    fitted = fit_temperature(logits, KIND, classes)
    assert calibration_error(scores(logits, KIND, fitted), classes) < 0.01
    assert calibration_error(scores(logits, KIND), classes) > 0.1


@given(st.integers(0, 2**32 - 1))
def test_the_fitted_temperature_is_the_likeliest(seed: int) -> None:
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 2 / KIND.scale, (200, 4)).astype(np.int32)
    classes = np.where(rng.random(200) < 0.6, logits.argmax(1), rng.integers(0, 4, 200))
    try:
        fitted = fit_temperature(logits, KIND, classes)
    except QuantizeError:
        return
    best = negative_log_likelihood(logits, classes, fitted)
    for other in (fitted * 0.99, fitted * 1.01):
        assert best <= negative_log_likelihood(logits, classes, other) + 1e-9


def test_the_calibration_error_is_the_gap_between_score_and_share() -> None:
    """Four images at 0.9, three right: |0.9 - 0.75|. Four more at 0.5, all wrong: 0.5. Each half counts by a half."""
    probabilities = np.array([[0.9, 0.1]] * 4 + [[0.5, 0.5]] * 4)
    classes = np.array([0, 0, 0, 1, 1, 1, 1, 1])
    assert calibration_error(probabilities, classes) == pytest.approx((0.15 + 0.5) / 2)
    assert calibration_error(np.eye(2), np.array([0, 1])) == 0


def test_errors_cancel_within_one_of_fifteen_bins_only() -> None:
    """0.70 is in the eleventh bin, 0.665 in the tenth: too low and too high a score do not make up for each other."""
    probabilities = np.array([[0.70, 0.30], [0.665, 0.335]])
    assert calibration_error(probabilities, np.array([0, 1])) == pytest.approx((0.30 + 0.665) / 2)
    probabilities[1] = [0.68, 0.32]
    assert calibration_error(probabilities, np.array([0, 1])) == pytest.approx((0.68 - 0.30) / 2)


def test_without_a_mistake_one_more_answer_may_be_wrong() -> None:
    """Two labels, one margin m, N right answers: the score is (N + 1) / (N + 2), so T = m / ln(N + 1)."""
    said: list[str] = []
    logits = np.array([[2048, 0], [0, 2048]] * 4, np.int32)
    kind = TensorType((1, 1, 2), bits=32, scale=2.0**-10)
    fitted = fit_temperature(logits, kind, np.array([0, 1] * 4), said.append)
    assert fitted == pytest.approx(2 / np.log(9), abs=1e-4)
    (sentence,) = said
    assert sentence == (
        f"there is no clear mistake among 8 held-out images, so the temperature of the scores, {fitted:g}, leaves "
        "room for one in 10"
    )


def test_more_right_answers_make_scores_more_certain() -> None:
    logits = np.array([[1024, 0, 0, 0], [0, 2048, 0, 0]], np.int32)
    fitted = [fit_temperature(np.tile(logits, (n, 1)), KIND, np.tile([0, 1], n)) for n in (1, 4, 100, 10_000)]
    assert fitted == sorted(fitted, reverse=True)
    assert all(MIN_TEMPERATURE <= each <= MAX_TEMPERATURE for each in fitted)


def test_with_one_mistake_the_likelihood_alone_decides() -> None:
    """Four labels, margin 1, nine right and one wrong: 30 / (e^b + 3) = 1 at the optimum, so b = ln 27."""
    logits = np.array([[1024, 0, 0, 0]] * 9 + [[0, 1024, 0, 0]], np.int32)
    said: list[str] = []
    assert fit_temperature(logits, KIND, np.zeros(10, np.int64), said.append) == pytest.approx(1 / np.log(27), abs=1e-4)
    assert said == []


def test_no_temperature_for_a_network_that_is_always_wrong() -> None:
    logits = np.array([[1024, 0, 0, 0], [0, 2048, 0, 0]], np.int32)
    with pytest.raises(QuantizeError, match=r"no temperature can be fitted to 2 held-out images of which 0\.0% are"):
        fit_temperature(logits, KIND, np.array([1, 0]))
