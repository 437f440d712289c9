"""The table itself: names are unique and every tensor of every case is of the type that it says."""

import numpy as np

from edgemeta.model.reference import run, trace
from edgemeta.model.self_test import flat
from tests.conformance.cases import CASES, Case
from tests.conformance.networks import assert_equal_outputs
from tests.parts import by_name, in_parts


def test_names_are_unique() -> None:
    assert len({case.name for case in CASES}) == len(CASES)


@in_parts(by_name(CASES))
def test_tensors_have_their_types_and_outputs_see_the_input(case: Case) -> None:
    for name, batch in case.batches():
        tensors = trace(case.model, batch)
        for layer in case.model.layers:
            tensor, expected = tensors[layer.name], layer.output
            assert tensor.shape[1:] == expected.shape
            assert tensor.dtype == expected.dtype
            assert tensor.min() >= expected.lo
            assert tensor.max() <= expected.hi
        outputs = run(case.model, batch)
        assert_equal_outputs(outputs, [tensors[each] for each in case.model.outputs])
        if name == "random":
            assert len(np.unique(flat(outputs), axis=0)) > 1 or case.name.startswith("requantize-multiplier-0")
