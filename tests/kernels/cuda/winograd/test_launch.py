"""Winograd convolutions: equal to the reference bit for bit at every shape, range and thread order, else refused."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgemeta.kernels.cuda.compile.compiler import Compiler
from edgemeta.kernels.cuda.compile.resources import violations
from edgemeta.kernels.cuda.plan.architectures import ARCHITECTURES
from edgemeta.kernels.cuda.plan.kernel import Candidate, Tensors
from edgemeta.kernels.cuda.winograd.launch import alternatives, candidates, is_exact
from edgemeta.kernels.cuda.winograd.tile import Tile, tiles
from edgemeta.kernels.lowering.steps import ConvStep
from edgemeta.model import reference
from edgemeta.model.graph import INPUT, Model
from edgemeta.model.layers import Conv, TensorType
from edgemeta.model.winograd import F2, F4
from tests.kernels.cuda.one_step import (
    SIGNED,
    SM_53,
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

LAYOUTS = (
    Layout("whole tiles", (8, 8, 8), 8),
    Layout("odd sizes", (7, 5, 3), 10, SIGNED, SIGNED),
    Layout("one pixel, one channel", (1, 1, 1), 1, SIGNED, UNSIGNED, padding=(2, 1, 1, 2)),
    Layout("no padding, many channels", (9, 14, 70), 20, UNSIGNED, SIGNED, padding=(0, 0, 0, 0)),
    Layout("residual", (6, 9, 12), 12, UNSIGNED, UNSIGNED, adds=True, clamps=True),
    Layout("residual of signed bytes", (6, 6, 6), 6, SIGNED, SIGNED, adds=True),
    Layout("tables", (5, 6, 9), 6, SIGNED, UNSIGNED, form="table"),
    Layout("64-bit product", (6, 5, 4), 5, UNSIGNED, SIGNED, form="product", clamps=True),
)


STRIDED = (
    Layout("stride 2 and a shortcut", (8, 8, 8), 8, stride=(2, 2), shortcut=True),
    Layout(
        "stride 2, odd sizes, a shortcut of signed bytes", (9, 7, 6), 10, SIGNED, SIGNED, stride=(2, 2), shortcut=True
    ),
    Layout("stride 2, padding behind only", (6, 10, 5), 9, SIGNED, UNSIGNED, padding=(0, 0, 1, 1), stride=(2, 2)),
    Layout("stride 2, no padding, tables", (6, 9, 33), 20, UNSIGNED, SIGNED, "table", (0, 0, 0, 0), stride=(2, 2)),
)


KINDS = pytest.mark.parametrize(
    ("layout", "tile"), [(LAYOUTS[4], 2), (LAYOUTS[4], 4), (STRIDED[1], 2)], ids=["2", "4", "stride 2"]
)


def offers(step: ConvStep, tensors: Tensors) -> list[Candidate]:
    """Candidates by rule and alternatives."""
    return [*candidates(step, tensors, SM_53), *alternatives(step, tensors, SM_53)]


def offer(model: Model, tile: int) -> Candidate:
    """The best candidate of one tile size."""
    return next(each for each in offers(*step_of(model)) if each.tile["m"] == tile)


def assert_equals_the_reference(layout: Layout, tile: int) -> None:
    """Main and shortcut output, random and extreme weights and images."""
    for weights in (random_weights(layout), extreme_weights(layout)):
        model = network(layout, weights)
        best = offer(model, tile)
        for name in (model.outputs[0], *(["shortcut"] if layout.shortcut else [])):
            plan = plan_of(model, best, SM_53, name)
            for images in batches(model.input):
                np.testing.assert_array_equal(run(plan, images), reference.trace(model, images)[name])


@pytest.mark.parametrize("tile", [2, 4])
@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
def test_equals_the_reference(layout: Layout, tile: int) -> None:
    assert_equals_the_reference(layout, tile)


@pytest.mark.parametrize("layout", STRIDED, ids=lambda layout: layout.name)
def test_equals_the_reference_at_stride_2(layout: Layout) -> None:
    assert_equals_the_reference(layout, 2)


@pytest.mark.parametrize("vector", [1, 2, 4])
@pytest.mark.parametrize("patch_pairs", [1, 2])
@KINDS
def test_every_share_of_a_thread_equals_the_reference(
    layout: Layout, tile: int, patch_pairs: int, vector: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def with_shares(*sizes: Any) -> tuple[tuple[float, Tile], ...]:
        return tuple((clocks, replace(each, patch_pairs=patch_pairs, vector=vector)) for clocks, each in tiles(*sizes))

    monkeypatch.setattr("edgemeta.kernels.cuda.winograd.launch.tiles", with_shares)
    best = offer(network(layout, random_weights(layout)), tile)
    assert (best.tile["patch_pairs"], best.tile["vector"]) == (patch_pairs, vector)
    assert_equals_the_reference(layout, tile)


def test_a_shortcut_whose_pixels_the_transform_changes_is_not_supported() -> None:
    layout = replace(STRIDED[0], padding=(0, 0, 2, 2))
    step, tensors = step_of(network(layout, random_weights(layout)))
    assert not offers(step, tensors)
    assert offers(replace(step, shortcut=None), tensors)


def test_the_requantization_divides_by_nine_where_nine_times_the_sum_fits() -> None:
    def divisor(weights: NDArray[np.int8]) -> int:
        model = network(layout, weights)
        inverse = dict(plan_of(model, offer(model, 4)).launches[0].source.defines)["ODD_INVERSE"]
        return pow(inverse, -1, 1 << 32)

    layout = Layout("one output", (4, 4, 16), 1)
    assert divisor(random_weights(layout)) == 1
    assert divisor(extreme_weights(layout)) == 9


@KINDS
def test_the_thread_order_does_not_matter_and_no_access_is_out_of_bounds(layout: Layout, tile: int) -> None:
    model = network(layout, random_weights(layout))
    plan = plan_of(model, offer(model, tile))
    images = next(iter(batches(model.input, 1)))
    expected = reference.trace(model, images)[model.outputs[0]]
    np.testing.assert_array_equal(run(plan, images, "reverse"), expected)
    np.testing.assert_array_equal(run(plan, images, 5), expected)
    np.testing.assert_array_equal(run(plan, images, "forward", "checked"), expected)


@pytest.mark.parametrize("tile", [2, 4])
def test_channels_in_several_chunks(tile: int) -> None:
    layout = Layout("chunks", (5, 6, 200), 8, SIGNED, SIGNED)
    model = network(layout, random_weights(layout))
    chunked = [each for each in offers(*step_of(model)) if each.tile["m"] == tile]
    assert any(each.tile["chunk_quads"] < 50 for each in chunked)
    images = next(iter(batches(model.input)))
    expected = reference.trace(model, images)[model.outputs[0]]
    for candidate in chunked:
        np.testing.assert_array_equal(run(plan_of(model, candidate), images), expected)


def test_f4_is_exact_up_to_its_limit_and_refused_above() -> None:
    kind = TensorType((2, 2, 227))
    layout = Layout("limit", kind.shape, 1, kind, SIGNED)
    model = network(layout, np.full((1, 3, 3, 227), -128, np.int8))
    images = np.full((1, *kind.shape), -128, np.int8)
    expected = reference.trace(model, images)[model.outputs[0]]
    np.testing.assert_array_equal(run(plan_of(model, offer(model, 4)), images), expected)

    beyond = Layout("limit", (2, 2, 228), 1, kind, SIGNED)
    conv = network(beyond, np.full((1, 3, 3, 228), -128, np.int8)).layers[0]
    assert isinstance(conv, Conv)
    assert not is_exact(conv, replace(kind, shape=beyond.shape), F4)
    assert is_exact(conv, replace(kind, shape=beyond.shape), F2)


@pytest.mark.parametrize(
    "change",
    [
        {"stride": (2, 1)},
        {"weights": fixed(np.ones((8, 1, 1, 8), np.int8)), "padding": (0, 0, 0, 0)},
        {"requantize": None},
    ],
    ids=["stride 2 and 1", "1x1", "no requantization"],
)
def test_other_convolutions_get_no_candidate(change: dict[str, Any]) -> None:
    step, tensors = step_of(network(LAYOUTS[0], random_weights(LAYOUTS[0])))
    other = replace(step, conv=replace(step.conv, **change))
    assert not offers(other, tensors)


def test_packed_tensors_get_no_candidate() -> None:
    step, tensors = step_of(network(LAYOUTS[0], random_weights(LAYOUTS[0])))
    assert not offers(step, replace(tensors, packed=frozenset({INPUT})))


def test_the_rule_counts_instructions() -> None:
    """Few channels do not pay for the transforms; where there is dp4a, nothing does."""
    for channels, is_chosen in ((16, True), (1, False)):
        layout = Layout("rule", (32, 32, channels), 16)
        step, tensors = step_of(network(layout, random_weights(layout)))
        assert bool(list(candidates(step, tensors, SM_53))) == is_chosen
        assert not list(candidates(step, tensors, ARCHITECTURES["sm_61"]))
        assert list(alternatives(step, tensors, ARCHITECTURES["sm_61"]))


@pytest.mark.parametrize(
    "architecture",
    [
        "sm_53",
        "sm_87",
        *(
            pytest.param(each, marks=pytest.mark.gate("1 s each: compiled for more devices"))
            for each in ("sm_62", "sm_72", "sm_90")
        ),
    ],
)
@KINDS
def test_compiles_without_spills(compiler: Compiler, layout: Layout, tile: int, architecture: str) -> None:
    model = network(layout, random_weights(layout))
    launch = plan_of(model, offer(model, tile)).launches[0]
    build = compiler.build(launch.source, ARCHITECTURES[architecture])
    assert not list(violations(launch, build.resources, ARCHITECTURES[architecture]))
