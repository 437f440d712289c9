"""Frames become a network's outputs in one launch, whose first phase preprocesses: equal to the CPU form.

On the emulation with every access checked, and as executed machine code.
"""

from collections.abc import Sequence

import numpy as np
import pytest

from edgemeta.kernels.cuda.compile.compiler import Compiler
from edgemeta.kernels.cuda.lowering import lower
from edgemeta.kernels.cuda.one_launch.plan import forms_of, in_phases, one_launch
from edgemeta.kernels.cuda.plan.architectures import ARCHITECTURES
from edgemeta.kernels.cuda.preprocess.launch import FRAME_SHAPE, preprocessing_source, with_preprocessing
from edgemeta.model import reference
from edgemeta.model.graph import Model
from edgemeta.model.preprocess import Rectangle
from edgemeta.plugins.preprocess import make_preprocessor
from edgemeta_proof.machine_code.devices import DEVICES
from edgemeta_proof.machine_code.execution.machine import Order
from edgemeta_proof.machine_code.execution.plan import ExecutedPlan
from tests.conformance.networks import assert_equal_outputs
from tests.emulation.executor import Emulator
from tests.emulation.executor import Order as EmulatedOrder
from tests.emulation.witnesses import block
from tests.kernels.cuda.preprocess.frames import Shot, network_plan_of, shot

MODEL = block("frames", 10, 9, 3, 12).model
MULTIPROCESSORS = 2
"""So that more blocks than two wait for each other."""

EMULATED: tuple[EmulatedOrder, ...] = ("forward", "reverse", 3)
EXECUTED: tuple[Order, ...] = ("together", "forward", "reverse")


def shots() -> list[Shot]:
    """Frames of several cameras: larger, smaller, gray, of one value, with two regions, and strided."""
    tiles = Shot(shot((40, 50, 3), 4).pixels, [Rectangle(1, 0, 30, 30), Rectangle(3, 1, 20, 25)])
    mirrored = shot((60, 80, 3), 5).pixels[::2, ::-1]
    return [
        *(shot(shape, n) for n, shape in enumerate([(48, 64, 3), (7, 5, 3), (33, 64)])),
        shot((37, 53, 3), value=255),
        tiles,
        Shot(mirrored, [Rectangle(0, 0, *mirrored.shape[:2])]),
    ]


def expected(model: Model, frames: Sequence[Shot]) -> tuple[np.ndarray, ...]:
    """The C++ library's images, through the reference."""
    images = [make_preprocessor(model, each.pixels.shape, each.regions)(each.pixels).copy() for each in frames]
    return reference.run(model, np.concatenate(images))


def test_the_preprocessing_is_a_phase_of_its_own_before_the_network() -> None:
    plan = lower(MODEL, ARCHITECTURES["sm_53"])
    framed = with_preprocessing(plan, MODEL, FRAME_SHAPE)
    first, *others = in_phases(framed)
    assert [launch.source for launch in first] == [preprocessing_source(MODEL, plan.architecture)]
    assert tuple(others) == in_phases(plan)
    twice = one_launch(with_preprocessing(one_launch(plan), MODEL, FRAME_SHAPE))
    assert twice.launches[0].source == one_launch(framed).launches[0].source, "joined once or twice"


def test_equal_to_the_cpu_form_on_the_emulation() -> None:
    plan, batch = network_plan_of(MODEL, shots(), "sm_53", MULTIPROCESSORS)
    assert plan.launches[0].grid[0] >= 2
    for order in EMULATED:
        assert_equal_outputs(Emulator(plan, order, "checked").run(batch), expected(MODEL, shots()), str(order))


@pytest.mark.usefixtures("disassembler")
@pytest.mark.parametrize(
    "architecture",
    [
        pytest.param(name, marks=pytest.mark.gate("8 s each: a network is compiled as one kernel, and executed"))
        for name in ("sm_53", "sm_87")
    ],
)
def test_equal_to_the_cpu_form_as_executed_machine_code(architecture: str, compiler: Compiler) -> None:
    plan, batch = network_plan_of(MODEL, shots(), architecture, MULTIPROCESSORS)
    for order in EXECUTED:
        assert_equal_outputs(ExecutedPlan(plan, compiler, order).run(batch), expected(MODEL, shots()), order)


@pytest.mark.usefixtures("disassembler")
@pytest.mark.gate("10 s: a network is compiled as one kernel with and without the preprocessing, and simulated")
def test_both_places_of_the_preprocessing_are_predicted(compiler: Compiler) -> None:
    """A launch before that of the network, whose input it writes, and the first phase of it."""
    framed = with_preprocessing(one_launch(lower(MODEL, ARCHITECTURES["sm_53"])), MODEL, FRAME_SHAPE)
    device, architecture = DEVICES["sm_53"], framed.architecture
    for form in forms_of(framed).values():
        timer = device.timer(form)
        clocks = sum(timer.clocks(each, compiler.build(each.source, architecture)) for each in form.launches)
        assert clocks / device.clock_mhz > 10
