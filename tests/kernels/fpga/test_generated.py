"""The generated tables as netlists: every pair and limit of the operators that the engines have, in Verilator.

A netlist is compiled for seconds to a minute before it runs; inputs of few bits are in test_engines, too.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgemeta.kernels.fpga.generate.foldings import choose_foldings
from edgemeta.kernels.fpga.generate.network import FpgaError
from edgemeta.kernels.fpga.simulate.model import Simulation, compile_model, missing_tools
from edgemeta.model import reference
from edgemeta.plugins.compile import refusals_of
from edgemeta.plugins.registry import choose
from tests.conformance.generated import TYPES, limits, pairs
from tests.conformance.networks import Case
from tests.conformance.operators import OPERATORS, ROUNDINGS, WEIGHTS, WINDOWS, Operator

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

USUAL = {
    "weights": ("power-of-two5", *WEIGHTS),
    "requantize": (("table", None, "any"), *ROUNDINGS),
    "multipliers": ((4, 1), (0, 1 << 21), (1, 0)),
    "window": WINDOWS[:2],
}
"""The first value of each field in place of the operators' own: what does not multiply."""
SHAPE = (3, 4, 4)
"""Small: a netlist is compiled for each row."""
ENGINES = tuple(
    replace(operator, fields={name: USUAL.get(name, values) for name, values in operator.fields.items()})
    for operator in OPERATORS
    if operator.name in ("conv", "conv-1x1", "dense", "average-global", "add", "clamp")
)


def assert_equal(case: Case, folder: Path) -> bool:
    """Whether the backend takes the network; if so, its integers are the reference's."""
    if refusals_of(case.model, choose("fpga")):
        return False
    batch = np.concatenate([each for _, each in case.batches()])
    folder.mkdir()
    try:
        network = choose_foldings(case.model)
    except FpgaError:  # refused as a whole: an addition of a tensor to itself
        return False
    simulation = Simulation(network, compile_model(network, folder, level=0))
    np.testing.assert_array_equal(simulation.run(batch), reference.run(case.model, batch)[0], err_msg=case.name)
    simulation.close()
    return True


def count_equal(cases: list[Case], folder: Path) -> int:
    missing = missing_tools()
    if missing is not None:
        pytest.skip(missing)
    return sum(assert_equal(case, folder / str(number)) for number, case in enumerate(cases))


@pytest.mark.parametrize("types", range(len(TYPES)))
def test_every_ordered_pair_with_unlike_zero_points(types: int, tmp_path: Path) -> None:
    cases = list(pairs(types, ENGINES, SHAPE))
    assert count_equal(cases, tmp_path) >= len(cases) * 3 // 4


@pytest.mark.parametrize("operator", ENGINES, ids=lambda operator: operator.name)
def test_every_limit(operator: Operator, tmp_path: Path) -> None:
    assert count_equal(list(limits(operator, SHAPE)), tmp_path) > len(operator.fields)
