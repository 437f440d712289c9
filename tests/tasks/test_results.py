"""The reader of each task."""

import numpy as np
import pytest

from edgemeta.model.tasks import Classification, Embedding, MultiLabel
from edgemeta.tasks.classification import top_k
from edgemeta.tasks.detection.objects import Detector
from edgemeta.tasks.embedding import EmbeddingReader
from edgemeta.tasks.multi_label import MultiLabelReader
from edgemeta.tasks.results import Result, reader
from tests.tasks.detection.models import detection_model, random_outputs
from tests.tasks.models import vector_model

OUTPUT = np.array([3, -5, 90, 90, 0, 7], np.int8).reshape(1, 1, 6)


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
