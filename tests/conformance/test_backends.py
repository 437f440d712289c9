"""Every backend, on every instruction set that this machine has, equals the reference on the whole table."""

from contextlib import closing
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgemeta.kernels.cpu.library import ISA_NAMES, best_isa
from edgemeta.model import reference
from edgemeta.plugins.registry import choose
from tests.conformance.cases import CASES, Case

ISAS = ISA_NAMES[1 : ISA_NAMES.index(best_isa()) + 1]


@cache
def expected(name: str) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    case = next(case for case in CASES if case.name == name)
    return [(batch, reference.run(case.model, batch)) for _, batch in case.batches()]


@pytest.mark.parametrize("isa", ISAS)
def test_cpu_equals_the_reference(case: Case, isa: str) -> None:
    for threads in (1, 2) if isa == ISAS[-1] else (1,):  # the threads share the work alike on each
        with closing(choose("cpu").compile(case.model, {"isa": isa, "threads": threads})) as session:
            for batch, logits in expected(case.name):
                np.testing.assert_array_equal(session.run(batch), logits, strict=True)
                np.testing.assert_array_equal(session.run(batch[:1]), logits[:1], strict=True)


def test_the_reference_backend_is_the_reference(case: Case) -> None:
    with closing(choose("reference").compile(case.model, {})) as session:
        for batch, logits in expected(case.name):
            np.testing.assert_array_equal(session.run(batch), logits, strict=True)
