"""The reader of each task."""

import math

import numpy as np
import pytest

from edgemeta.model.tasks import Classification, Embedding, MultiLabel, Raw
from edgemeta.tasks.classification import top_k
from edgemeta.tasks.detection.objects import Detector
from edgemeta.tasks.results import EmbeddingReader, MultiLabelReader, Numbers, Result, reader
from tests.tasks.detection.models import detection_model, random_outputs
from tests.tasks.models import vector_model

OUTPUT = np.array([3, -5, 90, 90, 0, 7], np.int8).reshape(1, 1, 6)

LABELS = tuple("abcdef")


def test_a_classification_gives_its_best_labels() -> None:
    model = vector_model(Classification(tuple("abcdef"), 2.0), 6)
    assert reader(model, top=2)([OUTPUT]) == Result(labels=top_k(model, OUTPUT.ravel(), 2))
    assert [label for label, _ in reader(model)([OUTPUT]).labels] == ["c", "d", "f", "a", "e"]


def test_a_multi_label_classification_gives_what_is_present() -> None:
    model = vector_model(MultiLabel(tuple("abcdef")), 6)
    assert reader(model)([OUTPUT]) == Result(labels=MultiLabelReader(model).present(OUTPUT.ravel()))


def test_a_detection_gives_objects() -> None:
    model = detection_model("yolox")
    outputs = random_outputs(model, 0)
    thresholds = {"label 1": 0.9}
    result = reader(model, thresholds=thresholds)(outputs)
    assert result == Result(objects=Detector(model, thresholds).objects(outputs))
    assert result.objects
    with pytest.raises(ValueError, match="no label 'x'"):
        reader(model, thresholds={"x": 0.5})


def test_an_embedding_gives_a_vector() -> None:
    model = vector_model(Embedding(), 6)
    expected = EmbeddingReader(model).vector(OUTPUT.ravel()).tolist()
    assert reader(model)([OUTPUT]) == Result(embedding=tuple(expected))


def test_raw_outputs_are_real_numbers_to_six_digits() -> None:
    model = vector_model(Raw(("angles",)), 6, is_raw=True, scale=1 / 3)
    integers = np.array([3, -5, 1 << 30, 90, 0, -(1 << 31)], np.int32).reshape(1, 1, 6)
    expected = tuple(float(f"{step * q:.6g}") for step, q in zip(model.steps("vector"), integers.ravel(), strict=True))
    assert reader(model)([integers]) == Result(numbers=(Numbers("angles", (1, 1, 6), expected),))
    shifted = vector_model(Raw(("angles",)), 6, zero_point=7)
    assert reader(shifted)([OUTPUT]).numbers[0].values == (-0.4, -1.2, 8.3, 8.3, -0.7, 0.0)


@pytest.mark.parametrize("is_raw", [False, True])
@pytest.mark.parametrize("scale", [1e-20, 0.1, 1e20])
def test_a_vector_has_length_1_and_its_direction(is_raw: bool, scale: float) -> None:
    model = vector_model(Embedding(), 16, is_raw=is_raw, scale=scale, zero_point=0 if is_raw else -9)
    integers = np.random.default_rng(0).integers(-128, 128, 16).astype(np.int32 if is_raw else np.int8)
    vector = EmbeddingReader(model).vector(integers)
    real = (integers.astype(np.float64) - model.output_types[0].zero_point) * model.steps("vector")
    assert np.isclose(np.linalg.norm(vector), 1, rtol=1e-14)
    np.testing.assert_allclose(vector, real / np.linalg.norm(real), rtol=1e-12)


def test_zeros_stay_zeros() -> None:
    reader = EmbeddingReader(vector_model(Embedding(), 4, zero_point=7))
    assert reader.vector(np.full(4, 7, np.int8)).tolist() == [0, 0, 0, 0]


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
