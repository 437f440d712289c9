"""Convolutions on matrix instructions: equal to the reference bit for bit, refused where bytes do not fit them."""

from dataclasses import replace
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
from tests.kernels.cuda.one_step import (
    SIGNED,
    UNSIGNED,
    Layout,
    batches,
    extreme_weights,
    fixed,
    network,
    plan_of,
    random_weights,
    run,
    step_of,
)

SM_87 = ARCHITECTURES["sm_87"]

LAYOUTS = (
    Layout("16 channels", (8, 8, 16), 16),
    Layout("stride 2 and a shortcut", (9, 7, 32), 20, SIGNED, SIGNED, stride=(2, 2), shortcut=True),
    Layout("64 channels, residual", (5, 6, 64), 64, UNSIGNED, UNSIGNED, adds=True, clamps=True),
    Layout("48 channels, residual of signed bytes", (4, 4, 48), 48, SIGNED, SIGNED, adds=True),
    Layout("128 channels, 1x1", (3, 5, 128), 9, UNSIGNED, SIGNED, padding=(0, 0, 0, 0), kernel=(1, 1), form="table"),
    Layout("5x2 kernel", (6, 6, 16), 70, SIGNED, UNSIGNED, form="product", padding=(2, 1, 2, 0), kernel=(5, 2)),
)


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


@pytest.mark.parametrize("choice", range(6))
def test_every_tile_in_every_thread_order(choice: int) -> None:
    layout = LAYOUTS[1]
    model = network(layout, random_weights(layout))
    plan = plan_of(model, offers(model)[choice], SM_87)
    images = next(iter(batches(model.input, 1)))
    expected = reference.trace(model, images)[model.outputs[0]]
    np.testing.assert_array_equal(run(plan, images, "reverse"), expected)
    np.testing.assert_array_equal(run(plan, images, 3), expected)


def test_no_access_is_out_of_bounds() -> None:
    layout = LAYOUTS[1]
    model = network(layout, random_weights(layout))
    images = next(iter(batches(model.input, 1)))
    expected = reference.trace(model, images)[model.outputs[0]]
    plan = plan_of(model, offers(model)[0], SM_87)
    np.testing.assert_array_equal(run(plan, images, "forward", "checked"), expected)


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


def test_packed_tensors_get_no_candidate() -> None:
    step, tensors = step_of(network(LAYOUTS[0], random_weights(LAYOUTS[0])))
    assert not list(candidates(step, replace(tensors, packed=frozenset({INPUT})), SM_87))


@pytest.mark.parametrize(
    "architecture", ["sm_87", pytest.param("sm_90", marks=pytest.mark.gate("1 s each: compiled for more devices"))]
)
@pytest.mark.parametrize("layout", LAYOUTS[1:3], ids=lambda layout: layout.name)
def test_compiles_without_spills(compiler: Compiler, layout: Layout, architecture: str) -> None:
    for candidate in offers(network(layout, random_weights(layout)))[::5]:
        model = network(layout, random_weights(layout))
        launch = plan_of(model, candidate, ARCHITECTURES[architecture]).launches[0]
        build = compiler.build(launch.source, ARCHITECTURES[architecture])
        assert not list(violations(launch, build.resources, ARCHITECTURES[architecture]))
