"""Labels under other names: groups add up, order is kept, and names that no network knows are found."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgemeta.daemon.inference.readers.labels import LabelMap, unknown_labels
from edgemeta.model.file import load
from edgemeta.model.graph import Model
from edgemeta.tasks.classification import rank, scores


@pytest.fixture
def model(model_file: Path) -> Model:
    return load(model_file)


logits_of_three = st.lists(st.integers(-128, 127), min_size=3, max_size=3)
reuse = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@reuse
@given(logits_of_three)
def test_renamed_labels_have_the_model_s_scores_and_its_order(model: Model, logits: list[int]) -> None:
    naming = LabelMap(model, {"red": "stop", "green": "go"})
    row = np.array(logits, np.int8)
    assert naming.names == ("stop", "go", "blue")
    named = naming.scores(row)
    np.testing.assert_array_equal(named, scores(row, model.output_types[0]))
    assert naming.rank(row, named, 3) == rank(row, 3).tolist()


@reuse
@given(logits_of_three)
def test_a_group_has_the_sum_of_its_labels_and_scores_still_sum_to_one(model: Model, logits: list[int]) -> None:
    naming = LabelMap(model, {"red": "light", "blue": "light"})
    row = np.array(logits, np.int8)
    own, named = scores(row, model.output_types[0]), naming.scores(row)
    assert naming.names == ("light", "green")
    np.testing.assert_allclose(named, [own[0] + own[2], own[1]], rtol=1e-12)
    best = naming.rank(row, named, 1)
    assert best == [0 if named[0] >= named[1] else 1]


def test_a_group_may_take_the_name_of_another_label(model: Model) -> None:
    assert LabelMap(model, {"blue": "red"}).names == ("red", "green")


def test_the_model_s_temperature_is_used(model: Model) -> None:
    warm = replace(model, task=replace(model.task, temperature=2.0))
    row: Any = np.array([500, 0, -500], np.int32)
    np.testing.assert_array_equal(LabelMap(warm, {}).scores(row), scores(row, model.output_types[0], 2.0))


def test_labels_that_no_model_has_are_found(model: Model) -> None:
    assert unknown_labels({"red": "a", "gren": "b"}, [model]) == ["gren"]
    other = replace(model, task=replace(model.task, labels=("gren",)))
    assert unknown_labels({"red": "a", "gren": "b"}, [model, other]) == []
