"""Every backend, on every instruction set that this machine has, equals the reference on the whole table."""

from contextlib import closing
from functools import cache
from typing import Any

import pytest
from numpy.typing import NDArray

from edgemeta.kernels.cpu.library import ISA_NAMES, best_isa
from edgemeta.model import reference
from edgemeta.plugins.api import Outputs
from edgemeta.plugins.registry import choose
from tests.conformance.cases import CASES, Case
from tests.conformance.networks import assert_equal_outputs

ISAS = ISA_NAMES[1 : ISA_NAMES.index(best_isa()) + 1]


@cache
def expected(name: str) -> list[tuple[NDArray[Any], Outputs]]:
    case = next(case for case in CASES if case.name == name)
    return [(batch, reference.run(case.model, batch)) for _, batch in case.batches()]


@pytest.mark.parametrize("isa", ISAS)
def test_cpu_equals_the_reference(case: Case, isa: str) -> None:
    for threads in (1, 2) if isa == ISAS[-1] else (1,):  # the threads share the work alike on each
        with closing(choose("cpu").compile(case.model, {"isa": isa, "threads": threads})) as session:
            for batch, outputs in expected(case.name):
                assert_equal_outputs(session.run(batch), outputs)
                assert_equal_outputs(session.run(batch[:1]), [output[:1] for output in outputs])


def test_the_reference_backend_is_the_reference(case: Case) -> None:
    with closing(choose("reference").compile(case.model, {})) as session:
        for batch, outputs in expected(case.name):
            assert_equal_outputs(session.run(batch), outputs)
