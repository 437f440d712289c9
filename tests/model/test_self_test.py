"""The inputs with known answers that a model file may carry."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from edgemeta.model import reference
from edgemeta.model.errors import ModelError
from edgemeta.model.file import decode, encode, load
from edgemeta.model.graph import Model, SelfTest
from edgemeta.model.layers import TensorType
from edgemeta.model.self_test import LARGE, flat, noise, with_self_test
from edgemeta.model.tasks import Embedding
from edgemeta.model.zoo import find, names
from tests.conformance.networks import NetworkBuilder


@pytest.mark.parametrize(
    "kind",
    [
        TensorType((32, 32, 3)),
        TensorType((5, 7, 1), signed=False),
        TensorType((9, 3, 3), bits=3),
        TensorType((4, 4, 3), bits=1, signed=False),
    ],
)
def test_inputs_follow_from_the_type_and_fill_its_range(kind: TensorType) -> None:
    images = noise(kind)
    assert images.dtype == kind.dtype
    assert images.shape[1:] == kind.shape
    assert (images.min(), images.max()) == (kind.lo, kind.hi)
    assert_array_equal(images, noise(kind))
    assert len({image.tobytes() for image in images}) == len(images)


def test_the_self_test_is_stored_in_the_model_file(small_model: Model) -> None:
    model = decode(encode(with_self_test(small_model)))
    assert model.self_test is not None
    assert_array_equal(model.self_test.expected, flat(reference.run(model, model.self_test.batch)))
    assert encode(model) == encode(with_self_test(small_model))


def test_a_file_without_a_self_test_loads(small_model: Model) -> None:
    assert b"self_test" not in encode(small_model)
    assert decode(encode(small_model)).self_test is None


@pytest.mark.parametrize("name", names())
def test_every_shipped_model_has_them(name: str) -> None:
    model = load(find(name))
    assert model.self_test is not None
    assert_array_equal(model.self_test.expected, flat(reference.run(model, model.self_test.batch)))


@pytest.mark.parametrize(
    ("batch", "expected", "sentence"),
    [
        ((0, 4, 4, 3), (0, 3), "the number of self-test inputs is 0, expected 1 .. 64"),
        ((65, 4, 4, 3), (65, 3), "the number of self-test inputs is 65, expected 1 .. 64"),
        ((2, 4, 3, 3), (2, 3), r"the self-test's batch is int8 \[2, 4, 3, 3\], expected int8 \[2, 4, 4, 3\]"),
        ((2, 4, 4, 3), (1, 3), r"expected outputs is int32 \[1, 3\], expected int32 \[2, 3\]"),
        ((), (), "the number of self-test inputs is 0"),
    ],
)
def test_shapes_that_do_not_fit(
    small_model: Model, batch: tuple[int, ...], expected: tuple[int, ...], sentence: str
) -> None:
    wrong = replace(small_model, self_test=SelfTest(np.zeros(batch, np.int8), np.zeros(expected, np.int32)))
    with pytest.raises(ModelError, match=sentence):
        encode(wrong)


def test_values_outside_of_their_types(small_model: Model, tmp_path: Path) -> None:
    good = with_self_test(small_model).self_test
    assert good is not None
    with pytest.raises(ModelError, match="the self-test's batch is uint8"):
        encode(replace(small_model, self_test=SelfTest(good.batch.view(np.uint8), good.expected)))
    with pytest.raises(ModelError, match="the self-test's expected outputs is int8"):
        encode(replace(small_model, self_test=SelfTest(good.batch, good.expected.astype(np.int8))))


@pytest.mark.parametrize(("height", "inputs"), [(LARGE // 64 - 1, 6), (LARGE // 64, 1), (LARGE // 64 + 1, 1)])
def test_a_network_with_a_large_input_has_one_input(height: int, inputs: int) -> None:
    net = NetworkBuilder("large", TensorType((height, 64, 1)))
    model = net.finish_as(Embedding(), net.average(net.start, (height, 64))).model
    tested = with_self_test(model).self_test
    assert tested is not None
    assert len(tested.batch) == inputs
