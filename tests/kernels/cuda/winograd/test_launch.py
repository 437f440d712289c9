"""Winograd convolutions: equal to the reference bit for bit at every shape, range and thread order, else refused."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgemeta.kernels.cuda.architectures import ARCHITECTURES
from edgemeta.kernels.cuda.compiler import wheel_compiler
from edgemeta.kernels.cuda.kernel import Candidate, Tensors
from edgemeta.kernels.cuda.plan import Buffer, Launch, Plan
from edgemeta.kernels.cuda.resources import violations
from edgemeta.kernels.cuda.steps import ConvStep
from edgemeta.kernels.cuda.winograd.launch import alternatives, candidates, is_exact
from edgemeta.kernels.emulation.executor import Emulator, Order
from edgemeta.model import reference
from edgemeta.model.graph import INPUT, Classification, Model, Preprocessing
from edgemeta.model.layers import Add, Clamp, Conv, Layer, Multiplier, Padding, Requantize, ShiftTable, TensorType
from edgemeta.model.weights import FixedWeights
from edgemeta.model.winograd import F2, F4

SM_53 = ARCHITECTURES["sm_53"]
SIGNED, UNSIGNED = TensorType((1, 1, 1), zero_point=-3), TensorType((1, 1, 1), signed=False, zero_point=7)


@dataclass(frozen=True)
class Layout:
    """Shape, types and requantization of one convolution."""

    name: str
    shape: tuple[int, int, int]
    outputs: int
    source: TensorType = UNSIGNED
    target: TensorType = UNSIGNED
    form: str = "line"
    padding: Padding = (1, 1, 1, 1)
    adds: bool = False
    clamps: bool = False


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


def requantization(layout: Layout, rng: np.random.Generator) -> Requantize:
    """A line in float32, a product of 64 bits (its slope is too steep for a line), or tables that are no lines."""
    kind, channels = layout.target, layout.outputs
    if layout.form == "table":
        table = rng.integers(kind.lo, kind.hi + 1, (channels, 256)).astype(kind.dtype)
        return ShiftTable(rng.integers(6, 10, channels).astype(np.uint8), table)
    multiplier = rng.integers(1 << 30, 1 << 31, channels).astype(np.int32)
    shift = 40 if layout.form == "line" else 3
    return Multiplier(multiplier, np.array([shift], np.uint8), kind.lo + 2, kind.hi - 1)


def network(layout: Layout, weights: NDArray[np.int8]) -> Model:
    """input -> conv (-> add the input) (-> clamp)."""
    rng = np.random.default_rng(len(layout.name))
    height, width, _ = layout.shape
    top, left, bottom, right = layout.padding
    source = replace(layout.source, shape=layout.shape)
    output = replace(layout.target, shape=(height + top + bottom - 2, width + left + right - 2, layout.outputs))
    bias = rng.integers(-9000, 9000, layout.outputs).astype(np.int32)
    layers: list[Layer] = [
        Conv(
            "conv",
            INPUT,
            output,
            FixedWeights(weights, 8, np.array([1.0])),
            bias,
            (1, 1),
            layout.padding,
            requantize=requantization(layout, rng),
        )
    ]
    if layout.adds:
        layers.append(Add("add", ("conv", INPUT), output, (1463401, 634833), 20, output.lo, output.hi))
    if layout.clamps:
        layers.append(Clamp("clamp", layers[-1].name, output, output.lo + 5, output.hi - 9))
    preprocessing = Preprocessing("full", "rgb", np.zeros((1, 256), np.uint8))
    return Model("winograd", source, tuple(layers), (layers[-1].name,), preprocessing, Classification(("a",)))


def step_of(model: Model) -> tuple[ConvStep, Tensors]:
    """The whole network as one step between ringed buffers."""
    conv, *rest = model.layers
    add = next((layer for layer in rest if isinstance(layer, Add)), None)
    after = tuple(layer for layer in rest if isinstance(layer, Clamp))
    assert isinstance(conv, Conv)
    types = {INPUT: model.input} | {layer.name: layer.output for layer in model.layers}
    return ConvStep(conv, add, INPUT if add else None, after), Tensors(types, frozenset())


def plan_of(model: Model, candidate: Candidate) -> Plan:
    """One launch. The rings are wider than asked, as another reader may want."""
    top, left, bottom, right = candidate.ring
    source = Buffer(INPUT, model.input, (top + 1, left + 2, bottom, right + 1))
    target = Buffer(model.outputs[0], model.layers[-1].output, (2, 1, 1, 3))
    launch = candidate.launch({source.name: source, target.name: target})
    return Plan(SM_53, (launch,), source, target)


def batches(kind: TensorType, images: int = 2) -> Iterable[NDArray[Any]]:
    """Random images, all extremes, and extremes that alternate."""
    rng = np.random.default_rng(3)
    yield rng.integers(kind.lo, kind.hi + 1, (images, *kind.shape)).astype(kind.dtype)
    signs = np.indices(kind.shape).sum(axis=0) % 2 == 0
    extremes = [np.full(kind.shape, end) for end in (kind.lo, kind.hi)]
    yield np.stack([*extremes, np.where(signs, kind.lo, kind.hi)]).astype(kind.dtype)


def ringed(buffer: Buffer, images: NDArray[Any]) -> NDArray[Any]:
    """Images as they lie in the buffer: zero point in the ring, anything in channels that are padding."""
    height, width, channels = buffer.kind.shape
    top, left, _, _ = buffer.ring
    memory = np.full((len(images), *buffer.shape), buffer.kind.zero_point, buffer.kind.dtype)
    inside = memory[:, top : top + height, left : left + width]
    inside[:] = np.random.default_rng(4).integers(0, 100, inside.shape)
    inside[..., :channels] = images
    return memory


def run(plan: Plan, images: NDArray[Any], order: Order = "forward", mode: str = "fast") -> NDArray[Any]:
    """The output tensor [N, H, W, C]."""
    found = Emulator(plan, order, mode).run(ringed(plan.input, images)).reshape(len(images), *plan.output.shape)
    height, width, channels = plan.output.kind.shape
    top, left, _, _ = plan.output.ring
    return found[:, top : top + height, left : left + width, :channels]


def random_weights(layout: Layout) -> NDArray[np.int8]:
    shape = (layout.outputs, 3, 3, layout.shape[2])
    return np.random.default_rng(1).integers(-128, 128, shape).astype(np.int8)


def extreme_weights(layout: Layout) -> NDArray[np.int8]:
    """Output channels of all -128, all 127, and both alternating."""
    signs = np.indices((3, 3, layout.shape[2])).sum(axis=0) % 2 == 0
    kinds = [np.full(signs.shape, -128), np.full(signs.shape, 127), np.where(signs, -128, 127)]
    return np.stack([kinds[o % 3] for o in range(layout.outputs)]).astype(np.int8)


def offer(model: Model, tile: int) -> Candidate:
    """The best candidate of one tile size."""
    return next(each for each in candidates(*step_of(model), SM_53) if each.tile["edge"] == tile + 2)


@pytest.mark.parametrize("tile", [2, 4])
@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
def test_equals_the_reference(layout: Layout, tile: int) -> None:
    for weights in (random_weights(layout), extreme_weights(layout)):
        model = network(layout, weights)
        plan = plan_of(model, offer(model, tile))
        for images in batches(model.input):
            expected = reference.trace(model, images)[model.outputs[0]]
            np.testing.assert_array_equal(run(plan, images), expected)


@pytest.mark.parametrize("tile", [2, 4])
def test_no_order_of_threads_matters_and_no_access_strays(tile: int) -> None:
    layout = LAYOUTS[4]
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
    chunked = [each for each in candidates(*step_of(model), SM_53) if each.tile["edge"] == tile + 2]
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
        {"stride": (2, 2)},
        {"weights": FixedWeights(np.ones((8, 1, 1, 8), np.int8), 8, np.array([1.0])), "padding": (0, 0, 0, 0)},
        {"requantize": None},
    ],
    ids=["stride 2", "1x1", "no requantization"],
)
def test_other_convolutions_are_left_to_others(change: dict[str, Any]) -> None:
    step, tensors = step_of(network(LAYOUTS[0], random_weights(LAYOUTS[0])))
    other = replace(step, conv=replace(step.conv, **change))
    assert not list(candidates(other, tensors, SM_53))


def test_packed_tensors_are_left_to_others() -> None:
    step, tensors = step_of(network(LAYOUTS[0], random_weights(LAYOUTS[0])))
    assert not list(candidates(step, replace(tensors, packed=frozenset({INPUT})), SM_53))


def test_dot_products_of_four_come_first_where_there_are_any() -> None:
    step, tensors = step_of(network(LAYOUTS[0], random_weights(LAYOUTS[0])))
    assert not list(candidates(step, tensors, ARCHITECTURES["sm_61"]))
    assert list(alternatives(step, tensors, ARCHITECTURES["sm_61"]))
    assert not list(alternatives(step, tensors, SM_53))


@pytest.mark.parametrize("architecture", ["sm_53", "sm_62", "sm_72", "sm_87", "sm_90"])
@pytest.mark.parametrize("tile", [2, 4])
def test_compiles_without_spills(tile: int, architecture: str) -> None:
    model = network(LAYOUTS[4], random_weights(LAYOUTS[4]))
    launch: Launch = plan_of(model, offer(model, tile)).launches[0]
    build = wheel_compiler().build(launch.source, ARCHITECTURES[architecture])
    assert not list(violations(launch, build.resources, ARCHITECTURES[architecture]))
