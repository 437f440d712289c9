"""The popcount kernel equals the reference wherever it is forced; by rule it runs where it is predicted to win."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from edgemeta.kernels.cuda.compile.compiler import Compiler
from edgemeta.kernels.cuda.compile.resources import violations
from edgemeta.kernels.cuda.lowering import KERNELS, lower
from edgemeta.kernels.cuda.plan.architectures import ARCHITECTURES
from edgemeta.kernels.cuda.plan.kernel import Candidate
from edgemeta.kernels.cuda.plan.launch_plan import LaunchPlan
from edgemeta.kernels.cuda.popc import launch as popc
from edgemeta.kernels.cuda.popc.planes import planes_of
from edgemeta.kernels.cuda.popc.tiles import Geometry, Rows, layout, passes, tiles, together
from edgemeta.model import reference
from edgemeta.model.graph import Model
from edgemeta.model.layers import Conv, Dense
from edgemeta_proof.machine_code.cost import cost
from edgemeta_proof.machine_code.execution.plan import ExecutedPlan
from tests.conformance.cases import CASES, Case
from tests.conformance.networks import assert_equal_outputs
from tests.emulation.executor import Emulator, Order
from tests.kernels.cuda.one_step import Layout, batches, inside, plan_of, ringed, run, step_of
from tests.kernels.cuda.popc.models import LAYOUTS, NONE, U1, U2, U8, model_of, models, wide
from tests.kernels.cuda.test_conformance import NAMES, drawn
from tests.parts import in_parts
from tests.proof.machine_code.execution.compiled import CompiledOnce

SM_53, SM_87 = ARCHITECTURES["sm_53"], ARCHITECTURES["sm_87"]
FORCED = (popc.forced, *KERNELS)
"""Popcount wherever it can run."""

MODELS = dict(models())
SOME = list(MODELS)[::4]


LAST = "spread"
"""The last layer, of ones and zeros, that many cases have."""


def launches(plan: LaunchPlan) -> int:
    """How many layers of a plan are popcount's, besides the last one."""
    return sum(launch.source.path == "popc/kernel.cu" and launch.layers != (LAST,) for launch in plan.launches)


def has_planes(case: Case) -> bool:
    """Whether a layer's weights are bit planes."""
    layers = [layer for layer in case.model.layers if isinstance(layer, Conv | Dense) and layer.name != LAST]
    return any(planes_of(layer.weights) is not None for layer in layers)


TABLE = {case.name: case for case in CASES if has_planes(case) and "depthwise" not in case.name}
QUICK = [*TABLE][::4]
GATE = pytest.mark.gate("1 to 3 s each: kernels are compiled")


def offers(model: Model, architecture: str = "sm_53") -> list[Candidate]:
    return list(popc.forced(*step_of(model), ARCHITECTURES[architecture]))


def test_cases_of_the_table() -> None:
    """All encodings of planes, and layers after an image, after a map, and with weights of over 16 bits."""
    names = set(TABLE)
    assert names >= {"binary1", "binary2", "binary3", "binary8", "binary8-wide", "first-dense-bases", "power-of-two2"}
    assert names >= {f"fixed{bits}-{way}" for bits in (1, 2) for way in ("layer", "channel")}
    assert "fixed3-layer" not in names
    assert launches(lower(TABLE["binary3"].model, SM_53, kernels=FORCED)) == 2


@in_parts(TABLE, 8, lambda name: () if name in QUICK else (GATE,), keeps_verdicts=True)
def test_a_case_of_the_table_equals_the_reference(case: Case) -> None:
    plan = lower(case.model, ARCHITECTURES[NAMES[drawn(case)]], kernels=FORCED)
    assert launches(plan) > 0
    orders: tuple[Order, ...] = ("forward", "reverse", 7)
    emulators = [Emulator(plan, order, mode="quick") for order in orders]
    for name, batch in case.batches():
        for emulator in emulators:
            assert_equal_outputs(emulator.run(batch), reference.run(case.model, batch), name)


@pytest.mark.usefixtures("disassembler")
@pytest.mark.parametrize("architecture", ["sm_53", "sm_87"])
@in_parts(TABLE, 8, lambda name: () if name == "binary2" else (GATE,), keeps_verdicts=True)
def test_the_machine_code_of_a_case_equals_the_reference(case: Case, architecture: str, compiler: Compiler) -> None:
    batch = np.concatenate([each for _, each in case.batches()])
    plan = lower(case.model, ARCHITECTURES[architecture], kernels=FORCED)
    found = ExecutedPlan(plan, CompiledOnce(compiler)).run(batch)
    assert_equal_outputs(found, reference.run(case.model, batch), case.name)


@pytest.mark.parametrize("name", [pytest.param(each, marks=() if each in SOME else GATE) for each in MODELS])
def test_a_layer_equals_the_reference_with_every_access_checked(name: str) -> None:
    model = MODELS[name]
    best = offers(model)[0]
    for batch in batches(model.input):
        np.testing.assert_array_equal(run(plan_of(model, best), batch, 5, "checked"), reference.run(model, batch)[0])


@pytest.mark.usefixtures("disassembler")
@pytest.mark.parametrize("architecture", ["sm_53", "sm_87"])
@pytest.mark.parametrize("name", [pytest.param(each, marks=() if each == SOME[0] else GATE) for each in MODELS])
def test_the_machine_code_of_a_layer_equals_the_reference(name: str, architecture: str, compiler: Compiler) -> None:
    model = MODELS[name]
    plan = plan_of(model, offers(model, architecture)[0], ARCHITECTURES[architecture])
    executed = ExecutedPlan(plan, compiler)
    for batch in batches(model.input):
        (found,) = executed.run(ringed(plan.input, batch))
        np.testing.assert_array_equal(inside(plan.outputs[0], found), reference.run(model, batch)[0])


def shapes(model: Model) -> list[Candidate]:
    """A candidate of each number of pixels, filters and splits, the best by rule."""
    step, tensors = step_of(model)
    products = popc._products(step, tensors)
    assert products is not None
    geometry = popc._geometry(products, tensors)
    seen = {}
    for _, tile in tiles(geometry, SM_53):
        seen.setdefault((tile.pixels, tile.filters, tile.split), tile)
    return [
        Candidate(
            "popc", tile.as_dict(), products.padding, popc.partial(popc._launch, products, tensors, geometry, tile)
        )
        for tile in seen.values()
    ]


@pytest.mark.gate("30 s: 30 tiles")
@pytest.mark.parametrize("number", [0, 1, 4])
def test_every_shape_of_a_tile_in_every_thread_order(number: int) -> None:
    model = model_of(LAYOUTS[number], "bases")
    batch = next(iter(batches(model.input)))
    expected = reference.run(model, batch)[0]
    found = shapes(model)
    assert len(found) >= 15
    for candidate in found:
        plan = plan_of(model, candidate)
        for order in ("reverse", 3):
            np.testing.assert_array_equal(run(plan, batch, order), expected, err_msg=str(candidate.tile))


def test_several_passes() -> None:
    """A window that does not fit: the kernel fills its shared memory again."""
    small = replace(SM_53, shared_bytes=4096)
    model = model_of(LAYOUTS[-1], "bases")
    step, tensors = step_of(model)
    best = next(iter(popc.forced(step, tensors, small)))
    plan = plan_of(model, best, small)
    assert dict(plan.launches[0].source.defines)["PASSES"] > 3
    assert plan.launches[0].shared_bytes <= 4096
    for batch in batches(model.input):
        np.testing.assert_array_equal(run(plan, batch, 5, "checked"), reference.run(model, batch)[0])


def test_tiles_fit_and_their_parts_are_whole() -> None:
    for bits, bases, totals in product((1, 2, 8), (1, 3), (False, True)):
        geometry = Geometry(49, 24, 130, 2, bits, bases, totals, Rows(7, 70, 3, 1, 9))
        for _, tile in tiles(geometry, SM_53):
            sizes = layout(geometry, tile)
            assert 4 * sizes.words <= SM_53.shared_bytes
            assert tile.chunk % tile.split == 0
            assert tile.chunk // tile.split % together(geometry, tile) == 0
            assert passes(geometry, tile) * tile.chunk >= geometry.words
            assert tile.threads % 32 == 0
            assert tile.threads % tile.block_pixels == 0


def test_other_layers_get_no_candidate() -> None:
    assert offers(wide(LAYOUTS[0])) == []
    step, tensors = step_of(model_of(replace(LAYOUTS[0], outputs=16, shortcut=True), "signs"))
    assert step.shortcut is not None
    assert not list(popc.forced(step, tensors, SM_53))
    for case in CASES:
        if "groups" in case.name or "depthwise" in case.name:
            assert launches(lower(case.model, SM_53, kernels=FORCED)) == 0


LARGE = Layout("large", (16, 16, 128), 128, U1, U8, padding=NONE, kernel=(1, 1))


def test_the_choice_is_by_prediction() -> None:
    """First where it is predicted to win; else last, for tuning, and never where the tensor cores have the layer."""
    step, tensors = step_of(model_of(LARGE, "signs"))
    by_rule = [each.kernel for kernel in KERNELS for each in kernel(step, tensors, SM_53)]
    assert by_rule[0] == "popc"
    assert by_rule.count("popc") == 4
    assert popc.predicted_clocks(step, tensors, SM_53) < 0.9 * popc.others_clocks(step, tensors, SM_53)
    on_tensor_cores = [each.kernel for kernel in KERNELS for each in kernel(step, tensors, SM_87)]
    assert (on_tensor_cores[0], on_tensor_cores[-4:]) == ("tensor", ["popc"] * 4)
    step, tensors = step_of(model_of(replace(LARGE, source=U8), "bases"))  # 24 pairs of planes
    many = [each.kernel for kernel in KERNELS for each in kernel(step, tensors, SM_53)]
    assert (many[0], many[-4:]) == ("direct", ["popc"] * 4)


@pytest.mark.usefixtures("disassembler")
@pytest.mark.parametrize(
    ("layout", "way"),
    [
        (LARGE, "signs"),
        pytest.param(replace(LARGE, source=U2), "two bits", marks=GATE),
        pytest.param(replace(LARGE, source=U2), "bases", marks=GATE),
        pytest.param(Layout("3x3", (8, 8, 64), 64, U1, U8), "signs", marks=GATE),
    ],
)
def test_the_simulation_agrees_with_the_choice(layout: Layout, way: str, compiler: Compiler) -> None:
    model = model_of(layout, way)
    step, tensors = step_of(model)
    ours = next(iter(popc.candidates(step, tensors, SM_53)))
    rest = (each for kernel in KERNELS[1:-1] for each in kernel(step, tensors, SM_53))
    times = [
        cost(plan_of(model, each), model, compiler).launches[0].busy_us or 0.0
        for each in (ours, next(each for each in rest if each.kernel != "popc"))
    ]
    assert 0 < times[0] < times[1]


@pytest.mark.parametrize(
    "architecture",
    ["sm_53", *(pytest.param(each, marks=GATE) for each in ("sm_61", "sm_62", "sm_72", "sm_87", "sm_90"))],
)
def test_compiles_without_spills(architecture: str, compiler: Compiler) -> None:
    target = ARCHITECTURES[architecture]
    for name in SOME:
        for candidate in offers(MODELS[name], architecture)[::3]:
            launch = plan_of(MODELS[name], candidate, target).launches[0]
            build = compiler.build(launch.source, target)
            assert not list(violations(launch, build.resources, target))
