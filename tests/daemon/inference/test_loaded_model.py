"""One network, asked by the worker and by a shadow run, and closed."""

from typing import Any

import pytest
from numpy.testing import assert_array_equal

from edgemeta.daemon.inference.loaded_model import LoadedModel
from edgemeta.model.graph import Model
from edgemeta.model.self_test import flat, with_self_test
from edgemeta.plugins.api import BackendError
from edgemeta.plugins.registry import choose
from tests.daemon.conftest import colour_model


@pytest.fixture
def model() -> Model:
    return with_self_test(colour_model())


@pytest.fixture(params=["reference", "cpu"])
def loaded(request: pytest.FixtureRequest, model: Model) -> Any:
    made = LoadedModel(model, request.param, choose(request.param).compile(model, {}))
    yield made
    made.close()


def test_an_answer_is_a_copy(loaded: LoadedModel, model: Model) -> None:
    """A session gives the same array again and again: what the worker reads, a shadow run may not overwrite."""
    test = model.self_test
    assert test is not None
    answer = loaded.run(test.batch[:1])
    loaded.run(test.batch[1:2])
    assert_array_equal(flat(answer)[0], test.expected[0])


def test_a_closed_model_says_so_and_closes_twice(loaded: LoadedModel, model: Model) -> None:
    assert model.self_test is not None
    assert loaded.self_test() == len(model.self_test.batch)
    loaded.close()
    loaded.close()
    with pytest.raises(BackendError):
        loaded.run(model.self_test.batch[:1])
