"""Scores of a multi-label classification."""

import math

import numpy as np
import pytest

from edgemeta.model.tasks import MultiLabel
from edgemeta.tasks.multi_label import MultiLabelReader
from tests.tasks.models import vector_model

LABELS = tuple("abcdef")


@pytest.mark.parametrize("is_raw", [False, True])
def test_scores_are_sigmoids(is_raw: bool) -> None:
    model = vector_model(MultiLabel(LABELS, 0.3), 6, is_raw=is_raw, zero_point=0 if is_raw else 5)
    for integers in ([-128, -1, 0, 5, 6, 127], [127] * 6, [-128] * 6):
        logits = np.array(integers, np.int32 if is_raw else np.int8)
        steps = np.resize(model.steps("vector"), 6).tolist()
        real = [step * (q - model.output_types[0].zero_point) for q, step in zip(integers, steps, strict=True)]
        reader = MultiLabelReader(model)
        scores = reader.scores(logits)
        np.testing.assert_allclose(scores, [1 / (1 + math.exp(-number)) for number in real], rtol=1e-13)
        expected = sorted(((-s, i) for i, s in enumerate(scores.tolist()) if s >= 0.3))
        assert reader.present(logits) == tuple((LABELS[i], -s) for s, i in expected)


def test_equal_scores_are_in_the_order_of_labels() -> None:
    reader = MultiLabelReader(vector_model(MultiLabel(LABELS), 6))
    assert [label for label, _ in reader.present(np.array([1, 9, 0, 9, -1, 1], np.int8))] == ["b", "d", "a", "f", "c"]


def test_extremes_are_finite() -> None:
    reader = MultiLabelReader(vector_model(MultiLabel(LABELS), 6, is_raw=True, scale=1e20))
    logits = np.array([-(2**31), 2**31 - 1, 0, 1, -1, 2], np.int32)
    assert np.round(reader.scores(logits), 6).tolist() == [0, 1, 0.5, 1, 0, 1]
