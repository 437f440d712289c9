"""What every test of a compiled program ends with."""

from ctypes import c_void_p

import numpy as np

from edgemeta.kernels.cpu.program import Program
from edgemeta.model import reference
from tests.conformance.networks import Case, assert_equal_outputs


def assert_equals_reference(program: Program, case: Case, place: str = "") -> None:
    """A program gives the reference's integers for all batches of a case."""
    for name, batch in case.batches():
        expected = reference.run(case.model, batch)
        found = [np.zeros_like(each) for each in expected]
        program.run(len(batch), batch.ctypes.data, (c_void_p * len(found))(*(each.ctypes.data for each in found)))
        assert_equal_outputs(found, expected, f"{place}{name}")
