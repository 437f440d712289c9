"""Random networks of every kind of layer: the reference equals the oracle, every instruction set the reference."""

from contextlib import closing
from typing import get_args

import numpy as np
import pytest

from edgemeta.kernels.cpu.library import supported_isas
from edgemeta.model import reference
from edgemeta.model.layers import Layer
from edgemeta.model.prove import prove
from edgemeta.plugins.registry import choose
from tests.conformance import oracle
from tests.conformance.networks import assert_equal_outputs
from tests.conformance.random_networks import KINDS, random_network
from tests.parts import in_parts

ISAS = supported_isas()
FEW, MANY = 5 * len(KINDS), 100 * len(KINDS)


def assert_equal(number: int) -> None:
    case = random_network(number)
    prove(case.model)
    for name, batch in case.batches():
        tensors = reference.trace(case.model, batch)
        for layer, tensor in oracle.trace(case.model, batch).items():
            np.testing.assert_array_equal(tensors[layer], tensor, err_msg=f"{case.name} {name} {layer}")
        outputs = [tensors[name] for name in case.model.outputs]
        for isa in ISAS:
            with closing(choose("cpu").compile(case.model, {"isa": isa, "threads": 1 + number % 2})) as session:
                assert_equal_outputs(session.run(batch), outputs, f"{case.name} {name} {isa}")


@in_parts({f"network {number}": number for number in range(FEW)}, 8)
def test_a_few(number: int) -> None:
    assert_equal(number)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", range(len(KINDS)), ids=KINDS)
def test_many(kind: int) -> None:
    """Beginning with each kind of layer."""
    for number in range(FEW + kind, MANY, len(KINDS)):
        assert_equal(number)


def test_every_kind_of_layer_occurs_as_first_layer() -> None:
    def kinds_of(numbers: range, place: slice) -> set[str]:
        return {type(layer).__name__ for n in numbers for layer in random_network(n).model.layers[place]}

    every = {layer.__name__ for layer in get_args(Layer)}
    assert kinds_of(range(FEW), slice(None)) == every
    assert kinds_of(range(2 * FEW), slice(0, 1)) == every
