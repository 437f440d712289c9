"""What the shipped network costs on ARM: no more instructions than benchmarks/arm_instructions.py has recorded."""

import json
from functools import partial
from pathlib import Path

import pytest

from edgemeta.model.file import load
from edgemeta.model.layers import TensorType
from edgemeta.model.zoo import find
from rig.arm.instructions import instructions_per_image
from rig.arm.machines import MACHINES, Machine, MissingToolError
from tests.conformance.networks import NetworkBuilder

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


@pytest.mark.gate("cross compiling, as above")
@pytest.mark.timeout(900)
def test_a_table_after_tiles_leaves_them_whole() -> None:
    """A table follows a few rows of a wide map: fewer than the four that Winograd's tiles make together."""
    wide = TensorType((24, 160, 64), 8, False, scale=0.05)
    net = NetworkBuilder("table-after-tiles", wide)
    same = net.conv(net.start, 64, weights=partial(net.fixed, bits=8), output=wide)
    model = net.observe(net.lookup(same, wide)).model
    machine = MACHINES[0]
    try:
        plain, tiles = (instructions_per_image(machine, model, form) for form in ("plain", "winograd"))
    except MissingToolError as error:
        pytest.skip(str(error))
    assert machine.isa == "neon"
    assert tiles < plain
