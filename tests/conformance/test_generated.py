"""The generated tables: the reference equals the oracle, every instruction set the reference.

`make test` has every ordered pair with one set of types and every limit by itself; the gate has all sets of types, and
`slow` pairs with limits and whole products.
"""

from collections.abc import Iterable
from contextlib import closing

import numpy as np
import pytest

from edgemeta.kernels.cpu.library import supported_isas
from edgemeta.model import reference
from edgemeta.model.prove import prove
from edgemeta.plugins.registry import choose
from tests.conformance import oracle
from tests.conformance.generated import TYPES, limits, pairs, pairs_of_limits, sums_at_the_ends, whole_products
from tests.conformance.networks import Case, assert_equal_outputs
from tests.conformance.operators import OPERATORS, Operator

ISAS = supported_isas()
BY_NAME = {operator.name: operator for operator in OPERATORS}
SLOW = pytest.mark.slow
PARTS = 8
"""Into which the pairs are divided, so that several workers share them."""


def assert_equal(case: Case, with_oracle: bool) -> None:
    prove(case.model)
    batches = [batch for _, batch in case.batches()]
    together = np.concatenate(batches)
    tensors = reference.trace(case.model, together)
    if with_oracle:
        for layer, tensor in oracle.trace(case.model, together).items():
            np.testing.assert_array_equal(tensors[layer], tensor, err_msg=f"{case.name} {layer}")
    outputs = [tensors[name] for name in case.model.outputs]
    for isa in ISAS:
        with closing(choose("cpu").compile(case.model, {"isa": isa, "threads": 1})) as session:
            assert_equal_outputs(session.run(together), outputs, f"{case.name} {isa}")


def assert_all_equal(cases: Iterable[Case], with_oracle: bool = False) -> None:
    for case in cases:
        assert_equal(case, with_oracle)


@pytest.mark.parametrize("part", range(PARTS))
def test_every_ordered_pair_with_unlike_zero_points(part: int) -> None:
    assert_all_equal(list(pairs(0))[part::PARTS])


@pytest.mark.gate("20 s: the pairs once more for each set of types, with the oracle")
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("types", range(len(TYPES)))
def test_every_ordered_pair_with_all_types(types: int, part: int) -> None:
    assert_all_equal(list(pairs(types))[part::PARTS], with_oracle=True)


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: operator.name)
def test_every_limit_of_every_field(operator: Operator) -> None:
    assert_all_equal(limits(operator))


@pytest.mark.gate("a minute in all: every tensor is computed once more by the oracle")
@pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: operator.name)
def test_the_reference_equals_the_oracle_at_every_limit(operator: Operator) -> None:
    assert_all_equal(limits(operator), with_oracle=True)


@pytest.mark.parametrize("name", ["conv-1x1", "depthwise", "dense"])
def test_accumulators_at_both_ends_of_int32(name: str) -> None:
    assert_all_equal(sums_at_the_ends(BY_NAME[name]))


@SLOW
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: operator.name)
def test_every_pair_with_every_limit(operator: Operator) -> None:
    assert_all_equal(pairs_of_limits(operator))


@SLOW
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: operator.name)
def test_all_combinations_of_limits(operator: Operator) -> None:
    assert_all_equal(whole_products(operator))
