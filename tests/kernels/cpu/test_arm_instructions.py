"""What the shipped network costs on ARM: no more instructions than benchmarks/arm_instructions.py has recorded."""

import json
from pathlib import Path

import pytest

from edgemeta.model.file import load
from edgemeta.model.zoo import find
from rig.arm.instructions import instructions_per_image
from rig.arm.machines import MACHINES, Machine, MissingToolError

GROWTH = 1.02


@pytest.mark.gate("cross compiling, which test_arm.py needs, too, and eleven images on each emulated processor")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("machine", MACHINES, ids=[machine.processor for machine in MACHINES])
def test_instructions_per_image_do_not_grow(machine: Machine, repository: Path) -> None:
    recorded = json.loads((repository / "benchmarks/results/arm-instructions.json").read_text())
    limits = {row["processor"]: row["edgemeta"] * GROWTH for row in recorded["rows"]}
    try:
        counted = instructions_per_image(machine, load(find(recorded["model"])))
    except MissingToolError as error:
        pytest.skip(str(error))
    assert counted <= limits[machine.processor], "if it must be so: python benchmarks/arm_instructions.py"
