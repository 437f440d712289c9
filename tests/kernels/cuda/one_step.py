"""One convolution as a network of its own, between buffers with rings, for tests of a single kernel."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgemeta.kernels.cuda.plan.architectures import ARCHITECTURES, Architecture
from edgemeta.kernels.cuda.plan.kernel import Candidate, Tensors
from edgemeta.kernels.cuda.plan.launch_plan import Buffer, LaunchPlan
from edgemeta.kernels.lowering.steps import ConvStep
from edgemeta.model.graph import INPUT, Model, Preprocessing
from edgemeta.model.layers import Add, Clamp, Conv, Layer, Multiplier, Padding, Requantize, ShiftTable, TensorType
from edgemeta.model.tasks import Classification
from edgemeta.model.weights import FixedWeights
from tests.emulation.executor import Emulator, Order

SM_53 = ARCHITECTURES["sm_53"]
SIGNED, UNSIGNED = TensorType((1, 1, 1), zero_point=-3), TensorType((1, 1, 1), signed=False, zero_point=7)


@dataclass(frozen=True)
class Layout:
    """Shape, types and requantization of one convolution, and the layers fused with it.

    form: "line", "table" or "product" (see `requantization`). shortcut: a 1x1 convolution of the same input beside it.
    """

    name: str
    shape: tuple[int, int, int]
    outputs: int
    source: TensorType = UNSIGNED
    target: TensorType = UNSIGNED
    form: str = "line"
    padding: Padding = (1, 1, 1, 1)
    kernel: tuple[int, int] = (3, 3)
    stride: tuple[int, int] = (1, 1)
    adds: bool = False
    clamps: bool = False
    shortcut: bool = False


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
    """input -> conv (-> add the input) (-> clamp), and beside it input -> shortcut with weights of the same range."""
    rng = np.random.default_rng(len(layout.name))
    height, width, _ = layout.shape
    top, left, bottom, right = layout.padding
    rows = (height + top + bottom - layout.kernel[0]) // layout.stride[0] + 1
    columns = (width + left + right - layout.kernel[1]) // layout.stride[1] + 1
    source = replace(layout.source, shape=layout.shape)
    output = replace(layout.target, shape=(rows, columns, layout.outputs))
    bias = rng.integers(-9000, 9000, layout.outputs).astype(np.int32)
    requantize = requantization(layout, rng)
    conv = Conv(
        "conv",
        INPUT,
        output,
        weights=fixed(weights),
        bias=bias,
        stride=layout.stride,
        padding=layout.padding,
        requantize=requantize,
    )
    layers: list[Layer] = [conv]
    if layout.adds:
        layers.append(
            Add("add", ("conv", INPUT), output, multipliers=(1463401, 634833), shift=20, lo=output.lo, hi=output.hi)
        )
    if layout.clamps:
        layers.append(Clamp("clamp", layers[-1].name, output, output.lo + 5, output.hi - 9))
    outputs = (layers[-1].name,)
    if layout.shortcut:
        shape = (layout.outputs, 1, 1, layout.shape[2])
        beside = fixed(rng.integers(int(weights.min()), int(weights.max()) + 1, shape).astype(np.int8))
        requantize = requantization(layout, rng)
        layers.append(
            Conv("shortcut", INPUT, output, weights=beside, bias=None, stride=layout.stride, requantize=requantize)
        )
    preprocessing = Preprocessing("full", "rgb", np.zeros((1, 256), np.uint8))
    return Model("one step", source, tuple(layers), outputs, preprocessing, Classification(("a",)))


def fixed(values: NDArray[np.int8]) -> FixedWeights:
    """int8 weights."""
    return FixedWeights(values, 8, np.array([1.0]))


def step_of(model: Model) -> tuple[ConvStep, Tensors]:
    """The whole network as one step between ringed buffers."""
    layers = model.by_name
    conv, add, clamp, shortcut = (layers.get(name) for name in ("conv", "add", "clamp", "shortcut"))
    assert isinstance(conv, Conv)
    assert add is None or isinstance(add, Add)
    assert shortcut is None or isinstance(shortcut, Conv)
    after = (clamp,) if isinstance(clamp, Clamp) else ()
    types = model.types
    return ConvStep(conv, add, INPUT if add else None, after, shortcut), Tensors(types, frozenset())


def plan_of(
    model: Model, candidate: Candidate, architecture: Architecture = SM_53, output: str = "", nibbles: bool = False
) -> LaunchPlan:
    """One launch; output: the main one by default. The rings are wider than required, as for other readers.

    nibbles: all tensors that the candidate can store so are stored so.
    """
    stored = candidate.nibbles if nibbles else frozenset()
    top, left, bottom, right = candidate.ring
    ring = (top + 1, left + 2, bottom, right + 1)
    buffers = {INPUT: Buffer(INPUT, model.input, ring, nibbles=INPUT in stored)}
    for layer in model.layers:
        buffers[layer.name] = Buffer(layer.name, layer.output, (2, 1, 1, 3), nibbles=layer.name in stored)
    launch = candidate.launch(buffers)
    return LaunchPlan(architecture, (launch,), buffers[INPUT], (buffers[output or model.outputs[0]],))


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
    if buffer.nibbles:
        whole = ringed(replace(buffer, nibbles=False), images)
        words = whole.reshape(*whole.shape[:3], channels // 8, 2, 4)  # channels c and c + 4 of eight
        return (words[..., 0, :] & 15 | words[..., 1, :] << 4).reshape(len(images), *buffer.shape)
    memory = np.full((len(images), *buffer.shape), buffer.kind.zero_point, buffer.kind.dtype)
    middle = memory[:, top : top + height, left : left + width]
    middle[:] = np.random.default_rng(4).integers(0, 100, middle.shape)
    middle[..., :channels] = images
    return memory


def run(plan: LaunchPlan, images: NDArray[Any], order: Order = "forward", mode: str = "quick") -> NDArray[Any]:
    """The output tensor [N, H, W, C]."""
    (found,) = Emulator(plan, order, mode).run(ringed(plan.input, images))
    return inside(plan.outputs[0], found)


def inside(buffer: Buffer, memory: NDArray[Any]) -> NDArray[Any]:
    """The tensor [N, H, W, C] in a buffer with a ring."""
    height, width, channels = buffer.kind.shape
    top, left, _, _ = buffer.ring
    if buffer.nibbles:
        words = memory.reshape(*memory.shape[:3], channels // 8, 1, 4)
        memory = np.concatenate([words << 4 >> 4, words >> 4], axis=-2).reshape(*memory.shape[:3], channels)
    return memory[:, top : top + height, left : left + width, :channels]


def random_weights(layout: Layout, bits: int = 8) -> NDArray[np.int8]:
    """Any integers of so many bits."""
    shape, end = (layout.outputs, *layout.kernel, layout.shape[2]), 1 << bits - 1
    return np.random.default_rng(1).integers(-end, end, shape).astype(np.int8)


def extreme_weights(layout: Layout, bits: int = 8) -> NDArray[np.int8]:
    """Output channels of all least integers, all greatest ones, and both alternating."""
    signs = np.indices((*layout.kernel, layout.shape[2])).sum(axis=0) % 2 == 0
    end = 1 << bits - 1
    kinds = [np.full(signs.shape, -end), np.full(signs.shape, end - 1), np.where(signs, -end, end - 1)]
    return np.stack([kinds[o % 3] for o in range(layout.outputs)]).astype(np.int8)
