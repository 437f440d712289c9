"""The machine code of whole networks gives the reference's integers: a shipped network, and the conformance table.

Here every case of the table is executed on one architecture, a third of them by the gate;
benchmarks/machine_code_proof.py executes the whole table on each (--table), and both shipped networks.
"""

from pathlib import Path

import numpy as np
import pytest

from edgemeta.kernels.cuda.compile.compiler import Compiler
from edgemeta.kernels.cuda.lowering import lower
from edgemeta.kernels.cuda.plan.architectures import ARCHITECTURES
from edgemeta.model import reference
from edgemeta.model.file import load
from edgemeta.model.zoo import find
from edgemeta_proof.machine_code.execution.plan import ExecutedPlan
from tests.conformance.cases import Case
from tests.conformance.networks import assert_equal_outputs
from tests.kernels.cuda.test_conformance import NAMES, SMALL, drawn
from tests.parts import Marks, in_parts
from tests.plugins.cuda.proofs import first_images
from tests.proof.machine_code.execution.compiled import CompiledOnce

pytestmark = pytest.mark.usefixtures("disassembler")

GATE = pytest.mark.gate("1.5 s each: the kernels are compiled and their machine code is executed")
SOME = {
    "sm_62": SMALL[::40],
    "sm_90": SMALL[::40],
    "sm_87": [case for case in SMALL if case.name.startswith("w4a4")],
}
"""Two more generations execute what the compiler makes of every fortieth case, and sm_87 all that is for its int4."""


def architectures_of(case: Case) -> list[str]:
    """The one of sm_53 and sm_87 on which the emulation does not run the case, so that each sees the whole table."""
    return list(dict.fromkeys([NAMES[1 - drawn(case)], *(name for name, cases in SOME.items() if case in cases)]))


EXECUTED = {f"{name}-{case.name}": (name, case) for case in SMALL for name in architectures_of(case)}
NUMBER = {name: number for number, name in enumerate(EXECUTED)}


def marks_of(name: str) -> Marks:
    """The first one is for every run, every third one for the gate, all others for `make slow`."""
    if NUMBER[name] == 0:
        return ()
    return (GATE,) if NUMBER[name] % 3 == 0 else (pytest.mark.slow,)


@pytest.fixture(scope="module")
def once(compiler: Compiler) -> CompiledOnce:
    return CompiledOnce(compiler)


@in_parts(EXECUTED, 8, marks_of, keeps_verdicts=True)
def test_a_case_of_the_table(row: tuple[str, Case], once: CompiledOnce) -> None:
    architecture, case = row
    batch = np.concatenate([each for _, each in case.batches()])
    found = ExecutedPlan(lower(case.model, ARCHITECTURES[architecture]), once).run(batch)
    assert_equal_outputs(found, reference.run(case.model, batch), case.name)


@pytest.mark.gate("20 s each: the machine code of a whole network is executed")
@pytest.mark.parametrize(
    "architecture", ["sm_53", "sm_87", *(pytest.param(name, marks=pytest.mark.slow) for name in ("sm_62", "sm_90"))]
)
def test_a_shipped_network_on_real_images(architecture: str, compiler: Compiler, shared_data: Path) -> None:
    model = load(find("resnet8-cifar10"))
    images = first_images(model, shared_data, 2)
    found = ExecutedPlan(lower(model, ARCHITECTURES[architecture]), compiler).run(images)
    for one, expected in zip(found, reference.run(model, images), strict=True):
        np.testing.assert_array_equal(one, expected, strict=True)
