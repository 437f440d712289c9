"""Convolutions on matrix instructions: equal to the reference bit for bit, refused where bytes do not fit them."""

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from edgemeta.kernels.cuda.compile.compiler import Compiler
from edgemeta.kernels.cuda.compile.resources import violations
from edgemeta.kernels.cuda.plan.architectures import ARCHITECTURES
from edgemeta.kernels.cuda.plan.kernel import Candidate
from edgemeta.kernels.cuda.tensor.launch import candidates
from edgemeta.model import reference
from edgemeta.model.graph import INPUT, Model
from edgemeta_proof.machine_code.cost import cost
from edgemeta_proof.machine_code.execution.plan import ExecutedPlan
from tests.kernels.cuda.one_step import (
    SIGNED,
    UNSIGNED,
    Layout,
    batches,
    extreme_weights,
    fixed,
    inside,
    network,
    plan_of,
    random_weights,
    ringed,
    run,
    step_of,
)

SM_87 = ARCHITECTURES["sm_87"]
U4, S4 = replace(UNSIGNED, bits=4), replace(SIGNED, bits=4)

LAYOUTS = (
    Layout("16 channels", (8, 8, 16), 16),
    Layout("stride 2 and a shortcut", (9, 7, 32), 20, SIGNED, SIGNED, stride=(2, 2), shortcut=True),
    Layout("64 channels, residual", (5, 6, 64), 64, UNSIGNED, UNSIGNED, adds=True, clamps=True),
    Layout("48 channels, residual of signed bytes", (4, 4, 48), 48, SIGNED, SIGNED, adds=True),
    Layout("128 channels, 1x1", (3, 5, 128), 9, UNSIGNED, SIGNED, padding=(0, 0, 0, 0), kernel=(1, 1), form="table"),
    Layout("5x2 kernel", (6, 6, 16), 70, SIGNED, UNSIGNED, form="product", padding=(2, 1, 2, 0), kernel=(5, 2)),
)
NARROW = (
    Layout("4 bits, 64 channels", (8, 8, 64), 16, U4, U4),
    Layout("4 bits, stride 2 and a shortcut", (9, 7, 32), 20, S4, S4, stride=(2, 2), shortcut=True),
    Layout("4 bits, 96 channels, residual", (5, 6, 96), 96, U4, U4, adds=True, clamps=True),
    Layout("4 bits, 128 channels, 1x1", (3, 5, 128), 9, S4, U4, padding=(0, 0, 0, 0), kernel=(1, 1), form="table"),
)
"""Inputs and weights of 4 bits."""


def offers(model: Model) -> list[Candidate]:
    """All candidates of sm_87."""
    return list(candidates(*step_of(model), SM_87))


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
def test_equals_the_reference(layout: Layout) -> None:
    for weights in (random_weights(layout), extreme_weights(layout)):
        model = network(layout, weights)
        best = offers(model)[0]
        for name in (model.outputs[0], *(["shortcut"] if layout.shortcut else [])):
            plan = plan_of(model, best, SM_87, name)
            for images in batches(model.input):
                np.testing.assert_array_equal(run(plan, images), reference.trace(model, images)[name])


@pytest.mark.parametrize("nibbles", [False, True], ids=["bytes", "nibbles"])
@pytest.mark.parametrize("layout", NARROW, ids=lambda layout: layout.name)
def test_int4_equals_the_reference_and_is_the_choice(layout: Layout, nibbles: bool) -> None:
    for weights in (random_weights(layout, 4), extreme_weights(layout, 4)):
        model = network(layout, weights)
        best = offers(model)[0]
        assert best.tile["bits"] == 4
        assert INPUT in best.nibbles
        for name in (model.outputs[0], *(["shortcut"] if layout.shortcut else [])):
            plan = plan_of(model, best, SM_87, name, nibbles)
            for images in batches(model.input):
                np.testing.assert_array_equal(run(plan, images), reference.trace(model, images)[name])


@pytest.mark.usefixtures("disassembler")
@pytest.mark.parametrize(
    "layout",
    [
        pytest.param(
            each, id=each.name, marks=() if n == 0 else pytest.mark.gate("2 s each: compiled, machine code executed")
        )
        for n, each in enumerate(NARROW)
    ],
)
def test_machine_code_of_int4_equals_the_reference(layout: Layout, compiler: Compiler) -> None:
    for weights in (random_weights(layout, 4), extreme_weights(layout, 4)):
        model = network(layout, weights)
        chosen = [each for each in offers(model) if each.tile["bits"] == 4][::3]
        for candidate, nibbles in product(chosen, (False, True)):
            plan = plan_of(model, candidate, SM_87, nibbles=nibbles)
            executed = ExecutedPlan(plan, compiler)
            for images in batches(model.input):
                (found,) = executed.run(ringed(plan.input, images))
                expected = reference.trace(model, images)[model.outputs[0]]
                np.testing.assert_array_equal(inside(plan.outputs[0], found), expected)


@pytest.mark.parametrize("nibbles", [False, True], ids=["bytes", "nibbles"])
@pytest.mark.parametrize("choice", range(12))
def test_every_tile_in_every_thread_order(choice: int, nibbles: bool) -> None:
    layout = NARROW[1]
    model = network(layout, random_weights(layout, 4))
    assert len({tuple(each.tile.values()) for each in offers(model)}) == 12, "six of 8 bits, six of 4"
    plan = plan_of(model, offers(model)[choice], SM_87, nibbles=nibbles)
    images = next(iter(batches(model.input, 1)))
    expected = reference.trace(model, images)[model.outputs[0]]
    np.testing.assert_array_equal(run(plan, images, "reverse"), expected)
    np.testing.assert_array_equal(run(plan, images, 3), expected)


@pytest.mark.parametrize(
    ("layout", "bits", "nibbles"),
    [(LAYOUTS[1], 8, False), (NARROW[1], 4, False), (NARROW[1], 4, True), (NARROW[2], 4, True)],
)
def test_no_access_is_out_of_bounds(layout: Layout, bits: int, nibbles: bool) -> None:
    model = network(layout, random_weights(layout, bits))
    images = next(iter(batches(model.input, 1)))
    expected = reference.trace(model, images)[model.outputs[0]]
    plan = plan_of(model, offers(model)[0], SM_87, nibbles=nibbles)
    np.testing.assert_array_equal(run(plan, images, "forward", "checked"), expected)


def test_what_may_be_stored_as_nibbles() -> None:
    """The input of int4 operands; what is written or added, of types of 4 bits, if a lane has whole words of it."""
    model = network(NARROW[2], random_weights(NARROW[2], 4))
    for each in offers(model):
        input_too = each.tile["bits"] == 4 and each.tile["columns"] > 2  # which is the residual, too
        assert each.nibbles == ({INPUT} if input_too else set()) | ({"clamp"} if each.tile["columns"] > 2 else set())
    model = network(NARROW[0], random_weights(NARROW[0], 4))
    for each in offers(model):
        assert (INPUT in each.nibbles) == (each.tile["bits"] == 4)
    for layout in (replace(NARROW[0], outputs=20), replace(NARROW[0], target=UNSIGNED)):  # no words; 8 bits
        for each in offers(network(layout, random_weights(layout, 4))):
            assert "conv" not in each.nibbles


@pytest.mark.parametrize("architecture", ["sm_53", "sm_61", "sm_62", "sm_72"])
def test_architectures_without_the_instructions_get_no_candidate(architecture: str) -> None:
    step, tensors = step_of(network(LAYOUTS[0], random_weights(LAYOUTS[0])))
    assert not list(candidates(step, tensors, ARCHITECTURES[architecture]))


@pytest.mark.parametrize(
    "change",
    [{"requantize": None}, {"weights": fixed(np.ones((16, 3, 3, 20), np.int8)), "input": "odd"}],
    ids=["no requantization", "20 channels"],
)
def test_other_convolutions_get_no_candidate(change: dict[str, Any]) -> None:
    step, tensors = step_of(network(LAYOUTS[0], random_weights(LAYOUTS[0])))
    types = {**tensors.types, "odd": replace(UNSIGNED, shape=(8, 8, 20))}
    other = replace(step, conv=replace(step.conv, **change))
    assert not list(candidates(other, replace(tensors, types=types), SM_87))


@pytest.mark.parametrize(
    ("architecture", "layout", "weight"),
    [
        ("sm_90", NARROW[0], -8),
        ("sm_87", replace(NARROW[0], shape=(8, 8, 48)), -8),
        ("sm_87", replace(NARROW[0], source=replace(U4, bits=5)), -8),
        ("sm_87", NARROW[0], -9),
        ("sm_87", NARROW[0], 8),
    ],
    ids=["no int4 tensor cores", "48 channels", "5 bits", "weight of -9", "weight of 8"],
)
def test_what_int4_does_not_hold_is_left_to_int8(architecture: str, layout: Layout, weight: int) -> None:
    weights = random_weights(layout, 4)
    weights.flat[0] = weight
    found = list(candidates(*step_of(network(layout, weights)), ARCHITECTURES[architecture]))
    assert len(found) == 6
    assert all(each.tile["bits"] == 8 for each in found)


def test_a_shortcut_of_wider_weights_is_left_to_int8() -> None:
    step, tensors = step_of(network(NARROW[1], random_weights(NARROW[1], 4)))
    assert step.shortcut is not None
    wide = replace(step.shortcut, weights=fixed(np.full((20, 1, 1, 32), 8, np.int8)))
    assert all(each.tile["bits"] == 8 for each in candidates(replace(step, shortcut=wide), tensors, SM_87))


@pytest.mark.usefixtures("disassembler")
@pytest.mark.parametrize(
    "layout",
    [
        pytest.param(each, id=each.name, marks=() if n == 0 else pytest.mark.gate("1 s each: compiled and simulated"))
        for n, each in enumerate(NARROW)
    ],
)
def test_the_simulation_agrees_with_the_choice_of_int4(layout: Layout, compiler: Compiler) -> None:
    """The rule counts instructions. Simulated from machine code, int8 is nowhere faster by more than a fiftieth.

    Nibbles in memory, which the rule takes wherever they fit, are faster than bytes.
    """
    model = network(layout, random_weights(layout, 4))
    found = offers(model)

    def simulated(bits: int, nibbles: bool) -> float:
        best = next(each for each in found if each.tile["bits"] == bits)
        (launch,) = cost(plan_of(model, best, SM_87, nibbles=nibbles), model, compiler).launches
        assert launch.busy_us is not None
        return launch.busy_us

    assert found[0].tile["bits"] == 4
    assert simulated(4, False) <= 1.02 * simulated(8, False)
    assert simulated(4, True) < min(simulated(4, False), simulated(8, False))


def test_packed_tensors_get_no_candidate() -> None:
    step, tensors = step_of(network(LAYOUTS[0], random_weights(LAYOUTS[0])))
    assert not list(candidates(step, replace(tensors, packed=frozenset({INPUT})), SM_87))


@pytest.mark.parametrize(
    "architecture", ["sm_87", pytest.param("sm_90", marks=pytest.mark.gate("1 s each: compiled for more devices"))]
)
@pytest.mark.parametrize("layout", [*LAYOUTS[1:3], *NARROW[:2]], ids=lambda layout: layout.name)
def test_compiles_without_spills(compiler: Compiler, layout: Layout, architecture: str) -> None:
    model = network(layout, random_weights(layout, layout.source.bits))
    found = list(candidates(*step_of(model), ARCHITECTURES[architecture]))
    for candidate in found[::5]:
        launch = plan_of(model, candidate, ARCHITECTURES[architecture]).launches[0]
        build = compiler.build(launch.source, ARCHITECTURES[architecture])
        assert not list(violations(launch, build.resources, ARCHITECTURES[architecture]))
