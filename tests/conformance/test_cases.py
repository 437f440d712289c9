"""The table itself: names are unique and every tensor of every case is of the type that it says."""

import numpy as np

from edgemeta.model.reference import run, trace
from edgemeta.model.self_test import flat
from tests.conformance.cases import CASES, Case
from tests.conformance.networks import assert_equal_outputs


def test_names_are_unique() -> None:
    assert len({case.name for case in CASES}) == len(CASES)


def test_tensors_have_their_types(case: Case) -> None:
    for _, batch in case.batches():
        tensors = trace(case.model, batch)
        for layer in case.model.layers:
            tensor, expected = tensors[layer.name], layer.output
            assert tensor.shape[1:] == expected.shape
            assert tensor.dtype == expected.dtype
            assert tensor.min() >= expected.lo
            assert tensor.max() <= expected.hi
        assert_equal_outputs(run(case.model, batch), [tensors[name] for name in case.model.outputs])


def test_the_dense_observer_sees_random_input(case: Case) -> None:
    (_, random), *_ = case.batches()
    outputs = flat(run(case.model, random))
    assert len(np.unique(outputs, axis=0)) > 1 or case.name.startswith("requantize-multiplier-0")
