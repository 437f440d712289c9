"""The machine code of whole networks gives the reference's integers: a shipped network, and the conformance table.

benchmarks/machine_code_proof.py executes the complete table and both shipped networks.
"""

from pathlib import Path

import numpy as np
import pytest

from edgemeta.kernels.cuda.compile.compiler import Compiler
from edgemeta.kernels.cuda.lowering import lower
from edgemeta.kernels.cuda.machine_code.execution.plan import ExecutedPlan
from edgemeta.kernels.cuda.plan.architectures import ARCHITECTURES
from edgemeta.kernels.cuda.plan.launch_plan import UnsupportedError
from edgemeta.model import reference
from edgemeta.model.file import load
from edgemeta.model.graph import Model
from edgemeta.model.zoo import find
from tests.conformance.cases import CASES, Case
from tests.conformance.networks import assert_equal_outputs
from tests.plugins.cuda.proofs import first_images

pytestmark = pytest.mark.usefixtures("disassembler")

GATE = pytest.mark.gate("1 s each: the kernels are compiled and their machine code is executed")
PARTS = {"sm_53": 12, "sm_62": 40, "sm_87": 40, "sm_90": 40}
"""One case of so many is executed here."""


def supported(model: Model, architecture: str) -> bool:
    try:
        lower(model, ARCHITECTURES[architecture])
    except UnsupportedError:
        return False
    return True


SOME = [
    (name, case)
    for name, part in PARTS.items()
    for case in [each for each in CASES if not each.name.startswith("resnet8")][::part]
    if supported(case.model, name)
]


@pytest.mark.parametrize(
    ("architecture", "case"),
    [
        pytest.param(name, case, id=f"{name}-{case.name}", marks=() if n == 0 else GATE)
        for n, (name, case) in enumerate(SOME)
    ],
)
def test_a_case_of_the_table(architecture: str, case: Case, compiler: Compiler) -> None:
    plan = ExecutedPlan(lower(case.model, ARCHITECTURES[architecture]), compiler)
    for name, batch in case.batches():
        assert_equal_outputs(plan.run(batch), reference.run(case.model, batch), name)


@pytest.mark.gate("10 s each: the machine code of a whole network is executed")
@pytest.mark.parametrize("architecture", ["sm_53", "sm_62", "sm_87", "sm_90"])
def test_a_shipped_network_on_real_images(architecture: str, compiler: Compiler, shared_data: Path) -> None:
    model = load(find("resnet8-cifar10"))
    images = first_images(model, shared_data, 2)
    found = ExecutedPlan(lower(model, ARCHITECTURES[architecture]), compiler).run(images)
    for one, expected in zip(found, reference.run(model, images), strict=True):
        np.testing.assert_array_equal(one, expected, strict=True)
