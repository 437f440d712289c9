"""The threshold of a rejection rule: never loses more than it may, and lies between known and foreign images."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemeta.toolchain.errors import QuantizeError
from edgemeta.toolchain.evaluate.rejection import fit_logit_threshold, fit_threshold

integers = st.integers(-(2**31), 2**31 - 1)
images = st.lists(st.tuples(integers, st.booleans()), min_size=1, max_size=60)
shares = st.sampled_from([0.0, 0.01, 0.025, 0.1, 0.5])


def test_the_threshold_is_the_quantile_of_right_images() -> None:
    evidence, right = np.arange(100), np.ones(100, bool)
    fitted = fit_threshold(evidence, right, most_lost=0.03)
    assert (fitted.threshold, fitted.lost, fitted.held_out) == (3, 0.03, 100)
    assert (fitted.labelled, fitted.foreign) == (None, 0)
    right[:50] = False  # wrong ones have no label to lose
    assert fit_threshold(evidence, right, most_lost=0.03).threshold == 53


@given(images, shares)
def test_no_more_right_labels_are_lost_than_allowed(pairs: list[tuple[int, bool]], most_lost: float) -> None:
    evidence, right = np.array([e for e, _ in pairs]), np.array([r for _, r in pairs])
    allowed = int(most_lost * len(pairs))
    if right.sum() <= allowed:
        with pytest.raises(QuantizeError, match="no threshold of rejection can be fitted"):
            fit_threshold(evidence, right, most_lost=most_lost)
        return
    threshold = fit_threshold(evidence, right, most_lost=most_lost).threshold
    assert (evidence[right] < threshold).sum() <= allowed
    assert (evidence[right] < threshold + 1).sum() > allowed, "a greater threshold would do as well"


@given(images, st.lists(integers, min_size=1, max_size=60), shares)
def test_foreign_images_lower_it_to_the_least_sum(
    pairs: list[tuple[int, bool]], strangers: list[int], most_lost: float
) -> None:
    evidence, right, foreign = np.array([e for e, _ in pairs]), np.array([r for _, r in pairs]), np.array(strangers)
    if right.sum() <= int(most_lost * len(pairs)):
        return
    most = fit_threshold(evidence, right, most_lost=most_lost).threshold
    fitted = fit_threshold(evidence, right, foreign, most_lost)
    assert fitted.threshold <= most
    assert fitted.labelled == (foreign >= fitted.threshold).mean()

    def total(threshold: int) -> float:
        return float((evidence[right] < threshold).mean() + (foreign >= threshold).mean())

    every = [*evidence, *(evidence + 1), *foreign, *(foreign + 1), most]
    assert total(fitted.threshold) <= min(total(int(t)) for t in every if t <= most) + 1e-12


def test_foreign_images_that_look_more_familiar_lose_no_right_label() -> None:
    fitted = fit_threshold(np.array([0, 1]), np.ones(2, bool), np.array([10]), most_lost=0.5)
    assert (fitted.threshold, fitted.lost, fitted.labelled) == (0, 0.0, 1.0)


def test_it_lies_in_the_middle_of_a_gap() -> None:
    fitted = fit_threshold(np.arange(1000, 1100), np.ones(100, bool), np.arange(-100, 1), most_lost=0)
    assert (fitted.threshold, fitted.lost, fitted.labelled) == ((1 + 1000) // 2, 0.0, 0.0)


def test_the_greatest_logit_is_the_evidence() -> None:
    logits = np.array([[5, 1], [3, 9], [0, 2], [8, 7]])
    fitted = fit_logit_threshold(logits, np.array([0, 1, 1, 1]), most_lost=0.25)
    assert (fitted.threshold, fitted.lost) == (5, 0.25)
    assert fit_logit_threshold(logits, np.array([0, 1, 1, 1]), np.array([[-9, -9]]), 0.25).threshold < 5
