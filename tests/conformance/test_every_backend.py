"""Every registered backend runs the whole table: its integers are the reference's, or it names the layer beforehand.

`supports` states what is refused; the refused models run in parts, with the same integers. CUDA runs on the emulated
driver, whose kernels take long to compile: `make test` has one of 25 cases, the gate all of them. The cpu backend's
instruction sets run the whole table in `test_backends`, those of neon on emulated processors in tests/kernels/cpu. A
netlist of fpga is compiled for tens of seconds before it runs: its cases are in tests/kernels/fpga.
"""

import functools
import re
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from numpy.typing import NDArray

from edgemeta.model import reference
from edgemeta.plugins.api import Backend, Outputs
from edgemeta.plugins.compile import UnsupportedLayerError, compile_model, refusals_of
from edgemeta.plugins.registry import choose, load, names
from tests.conformance.cases import CASES, Case
from tests.conformance.networks import assert_equal_outputs
from tests.parts import Marks, in_parts
from tests.plugins.cuda.conftest import backend, cache, driver, loaded

__all__ = ["backend", "cache", "driver", "loaded"]  # fixtures of the emulated driver

GATE = pytest.mark.gate("three minutes of processor time in all: the kernels of most of the table are compiled")
OPTIONS: dict[str, dict[str, object]] = {"cuda": {"tiles": "rule"}}


ROWS = {
    f"{name}-{case.name}": (name, case)
    for name in names()
    if name != "fpga" and (name != "neon" or load(name).probe().available)
    for case in CASES
}
QUICK = {case.name for case in CASES[::25]} | {"outputs-grid", "outputs-read-later"}


def marks_of(row: str) -> Marks:
    """The cases of several outputs and one of 25 are quick."""
    _, case = ROWS[row]
    return () if case.name in QUICK else (GATE,)


@pytest.fixture
def backend_of(request: pytest.FixtureRequest) -> Callable[[str], Backend]:
    """A backend by its name, CUDA on the emulated driver."""
    return lambda name: request.getfixturevalue("backend") if name == "cuda" else choose(name)


@functools.cache
def expected(name: str) -> list[tuple[NDArray[Any], Outputs]]:
    case = next(case for case in CASES if case.name == name)
    return [(batch, reference.run(case.model, batch)) for _, batch in case.batches()]


@in_parts(ROWS, 16, marks_of, keeps_verdicts=True)
def test_a_backend_conforms(row: tuple[str, Case], backend_of: Callable[[str], Backend]) -> None:
    name, case = row
    chosen, model = backend_of(name), case.model
    refusals = refusals_of(model, chosen)
    if refusals:
        layer, reason = next(iter(refusals.items()))
        with pytest.raises(UnsupportedLayerError, match=f"^{re.escape(f'backend {name}: layer {layer!r}: {reason}')}$"):
            compile_model(model, chosen, OPTIONS.get(name, {}), "refuse")
    with closing(compile_model(model, chosen, OPTIONS.get(name, {}))) as session:
        for batch, outputs in expected(case.name):
            assert_equal_outputs(session.run(batch), outputs)


def test_reference_and_cpu_support_every_layer() -> None:
    for name in ("reference", "cpu"):
        assert not any(refusals_of(case.model, choose(name)) for case in CASES)
