"""Every registered backend runs the whole table: its integers are the reference's, or it names the layer beforehand.

`supports` states what is refused; the refused models run in parts, with the same integers. CUDA runs on the emulated
driver, whose kernels take long to compile: `make test` has one of 25 cases, the gate all of them. The cpu backend's
instruction sets run the whole table in `test_backends`, those of neon on emulated processors in tests/kernels/cpu. A
netlist of fpga is compiled for tens of seconds before it runs: its cases are in tests/kernels/fpga.
"""

import functools
import re
from collections.abc import Callable, Iterator
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
from tests.plugins.cuda.conftest import backend, cache, driver, loaded

__all__ = ["backend", "cache", "driver", "loaded"]  # fixtures of the emulated driver

GATE = pytest.mark.gate("three minutes of processor time in all: the kernels of most of the table are compiled")
OPTIONS: dict[str, dict[str, object]] = {"cuda": {"tiles": "rule"}}


def rows() -> Iterator[Any]:
    """Every backend on every case; those of several outputs and one of 25 are quick."""
    for name in names():
        if name == "fpga" or (name == "neon" and not load(name).probe().available):
            continue
        for number, case in enumerate(CASES):
            is_quick = number % 25 == 0 or case.name in ("outputs-grid", "outputs-read-later")
            yield pytest.param(name, case, id=f"{name}-{case.name}", marks=[] if is_quick else [GATE])


@pytest.fixture
def backend_of(request: pytest.FixtureRequest) -> Callable[[str], Backend]:
    """A backend by its name, CUDA on the emulated driver."""
    return lambda name: request.getfixturevalue("backend") if name == "cuda" else choose(name)


@functools.cache
def expected(name: str) -> list[tuple[NDArray[Any], Outputs]]:
    case = next(case for case in CASES if case.name == name)
    return [(batch, reference.run(case.model, batch)) for _, batch in case.batches()]


@pytest.mark.parametrize(("name", "row"), [*rows()])
def test_a_backend_conforms(name: str, row: Case, backend_of: Callable[[str], Backend]) -> None:
    chosen, model = backend_of(name), row.model
    refusals = refusals_of(model, chosen)
    if refusals:
        layer, reason = next(iter(refusals.items()))
        with pytest.raises(UnsupportedLayerError, match=f"^{re.escape(f'backend {name}: layer {layer!r}: {reason}')}$"):
            compile_model(model, chosen, OPTIONS.get(name, {}), "refuse")
    with closing(compile_model(model, chosen, OPTIONS.get(name, {}))) as session:
        for batch, outputs in expected(row.name):
            assert_equal_outputs(session.run(batch), outputs)


def test_reference_and_cpu_support_every_layer() -> None:
    for name in ("reference", "cpu"):
        assert not any(refusals_of(case.model, choose(name)) for case in CASES)
