"""Builder of small random networks whose integers stay in range, for the conformance table."""

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.graph import INPUT, Model, Preprocessing
from edgemeta.model.layers import (
    Add,
    AveragePool,
    ChannelShuffle,
    Clamp,
    Concat,
    Conv,
    Coordinates,
    Dense,
    Layer,
    Lookup,
    MaxPool,
    Multiplier,
    Pad,
    Padding,
    Pair,
    Product,
    Requantize,
    Rescale,
    ResizeBilinear,
    Shape,
    ShiftTable,
    Slice,
    TableRecipe,
    TensorType,
    Upsample,
)
from edgemeta.model.layers.functions import FunctionName
from edgemeta.model.tasks import Classification, Task
from edgemeta.model.weights import BinaryWeights, FixedWeights, PowerOfTwoWeights, Weights

Form = Literal["multiplier", "multiplier-per-layer", "table", "table-per-layer"]


@dataclass(frozen=True, eq=False)
class Case:
    """A model and the batches to run it on; images: how many random ones."""

    name: str
    model: Model
    images: int = 3

    def batches(self) -> Iterator[tuple[str, NDArray[Any]]]:
        """Named batches [N, H, W, C]: random, all lowest, all highest, and both alternating in two ways."""
        kind = self.model.input
        rng = np.random.default_rng(zlib.crc32(self.name.encode()))
        checkers = np.indices(kind.shape).sum(axis=0) % 2 == 0
        columns = np.indices(kind.shape)[1] % 2 == 0
        yield "random", rng.integers(kind.lo, kind.hi + 1, (self.images, *kind.shape)).astype(kind.dtype)
        yield "lowest", np.full((1, *kind.shape), kind.lo, kind.dtype)
        yield "highest", np.full((1, *kind.shape), kind.hi, kind.dtype)
        yield "checkers", np.where(checkers, kind.lo, kind.hi)[np.newaxis].astype(kind.dtype)
        yield "columns", np.where(columns, kind.lo, kind.hi)[np.newaxis].astype(kind.dtype)


@dataclass
class NetworkBuilder:
    """Builds a model layer by layer: each method appends one layer and returns its tensor's name.

    source: type of the tensor `start`, which the tested layers read: the image itself if it has 1 or 3 channels,
    otherwise the result of `_spread_channels` for a 3-channel image.
    """

    name: str
    source: TensorType
    layers: list[Layer] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(zlib.crc32(self.name.encode()) + 1)
        height, width, channels = self.source.shape
        is_image = channels in (1, 3)
        self.input = self.source if is_image else replace(self.source, shape=(height, width, 3))
        self.start = INPUT if is_image else self._spread_channels(channels)

    def _spread_channels(self, channels: int) -> str:
        """Make any number of channels of three, each through a random table of its own that keeps both extremes."""
        kind = self.source
        values = np.zeros((channels, 1, 1, 3), np.int8)
        values[np.arange(channels), 0, 0, np.arange(channels) % 3] = 1
        shift = int(kind.bits == 8)
        table = self.rng.integers(kind.lo, kind.hi + 1, (channels, 256))
        table[:, : ((kind.lo - kind.zero_point + shift) >> shift) + 129] = kind.lo
        table[:, ((kind.hi - kind.zero_point + shift) >> shift) + 128 :] = kind.hi
        requantize = ShiftTable(np.array([shift], np.uint8), table.astype(kind.dtype))
        weights = FixedWeights(values, 2, np.array([1.0]))
        return self.append(Conv("spread", INPUT, kind, weights=weights, requantize=requantize))

    def type_of(self, name: str) -> TensorType:
        return self.input if name == INPUT else next(layer.output for layer in self.layers if layer.name == name)

    def append(self, layer: Layer) -> str:
        self.layers.append(layer)
        return layer.name

    def next_name(self, kind: str) -> str:
        return f"{kind}{len(self.layers)}"

    def fixed(self, shape: tuple[int, ...], bits: int = 8, per_channel: bool = False) -> FixedWeights:
        values = self.rng.integers(-(2 ** (bits - 1)), 2 ** (bits - 1), shape).astype(np.int8)
        return FixedWeights(values, bits, 2.0 ** -self.rng.integers(3, 9, shape[0] if per_channel else 1))

    def power_of_two(self, shape: tuple[int, ...], bits: int) -> PowerOfTwoWeights:
        magnitudes = self.rng.integers(0, 2 ** (bits - 2) + 1, shape)
        negative = self.rng.integers(0, 2, shape) * (magnitudes > 0)
        codes = (magnitudes + negative * 2 ** (bits - 1)).astype(np.uint8)
        return PowerOfTwoWeights(codes, bits, np.array([2.0**-6]))

    def binary(self, shape: tuple[int, ...], bases: int, reach: int = 200) -> BinaryWeights:
        basis = (2 * self.rng.integers(0, 2, (bases, *shape)) - 1).astype(np.int8)
        factors = self.rng.integers(-reach, reach + 1, (shape[0], bases)).astype(np.int16)
        return BinaryWeights(basis, factors, np.array([2.0**-8]))

    def bias(self, channels: int, spread: float) -> NDArray[np.int32]:
        return self.rng.normal(0, spread / 2, channels).astype(np.int32)

    def requantize(self, form: Form, spread: NDArray[np.float64], output: TensorType) -> Requantize:
        """Bring accumulators of standard deviation `spread` [C] to the output type, about one in twenty saturating."""
        if form.endswith("per-layer"):
            spread = spread.mean(keepdims=True)
        half_range = max(1.0, (output.hi - output.lo) / 2)
        if form.startswith("multiplier"):
            factors = half_range / (2 * spread)
            shifts = np.clip(30 - np.floor(np.log2(factors)), 0, 62)
            return Multiplier(
                np.minimum(np.round(factors * 2.0**shifts), 2**31 - 1).astype(np.int32),
                shifts.astype(np.uint8),
                output.lo,
                output.hi,
            )
        shifts = np.clip(np.round(np.log2(spread / 50)), 0, 31).astype(np.uint8)
        gains = self.rng.uniform(-1.5, 1.5, (len(spread), 1)) * half_range / 100
        offsets = (output.lo + output.hi) / 2 + self.rng.normal(0, 0.3 * half_range, (len(spread), 1))
        lines = offsets + gains * np.arange(-128, 128) + self.rng.normal(0, 0.3 * half_range, (len(spread), 256))
        return ShiftTable(shifts, np.clip(np.round(lines), output.lo, output.hi).astype(output.dtype))

    def spread(self, decoded: NDArray[np.int32], source: TensorType) -> NDArray[np.float64]:
        """Standard deviation of accumulators, weights [O, ...] on random input."""
        power = np.mean((np.arange(source.lo, source.hi + 1) - source.zero_point) ** 2)
        energy = (decoded.reshape(len(decoded), -1).astype(np.float64) ** 2).sum(axis=1)
        return np.sqrt(np.maximum(1.0, energy * power))

    def conv(
        self,
        source: str,
        channels: int,
        kernel: Pair = (3, 3),
        stride: Pair = (1, 1),
        padding: Padding = (1, 1, 1, 1),
        *,
        groups: int = 1,
        dilation: Pair = (1, 1),
        weights: Callable[[tuple[int, ...]], Weights] | None = None,
        form: Form | None = "multiplier",
        output: TensorType | None = None,
        with_bias: bool = True,
    ) -> str:
        """Append a convolution; `output` is its type, whose shape is computed; form None leaves raw int32."""
        before = self.type_of(source)
        covered = (kernel[0] - 1) * dilation[0] + 1, (kernel[1] - 1) * dilation[1] + 1
        height, width, _ = pooled(before.shape, covered, stride, padding)
        kind = TensorType((1, 1, 1)) if output is None else output
        made = (weights or self.fixed)((channels, *kernel, before.shape[2] // groups))
        has_steps = len(made.scale) > 1  # a step per channel: the type's scale is then the input's
        unfinished = raw((height, width, channels), before.scale if has_steps else 2.0**-10)
        after = replace(kind, shape=(height, width, channels)) if form else unfinished
        spread = self.spread(made.decode(), before)
        bias = self.bias(channels, float(spread.mean())) if with_bias else None
        requantize = self.requantize(form, spread, after) if form else None
        name = self.next_name("conv")
        return self.append(
            Conv(
                name,
                source,
                after,
                weights=made,
                bias=bias,
                stride=stride,
                padding=padding,
                groups=groups,
                requantize=requantize,
                dilation=dilation,
            )
        )

    def dense(
        self,
        source: str,
        channels: int,
        *,
        weights: Callable[[tuple[int, ...]], Weights] | None = None,
        form: Form | None = None,
        output: TensorType | None = None,
    ) -> str:
        before = self.type_of(source)
        shape = (1, 1, channels)
        after = replace(output or TensorType(shape), shape=shape) if form else raw(shape)
        made = (weights or self.fixed)((channels, int(np.prod(before.shape))))
        spread = self.spread(made.decode(), before)
        requantize = self.requantize(form, spread, after) if form else None
        bias = self.bias(channels, float(spread.mean()))
        return self.append(
            Dense(self.next_name("dense"), source, after, weights=made, bias=bias, requantize=requantize)
        )

    def add(self, a: str, b: str, *, multipliers: Pair, shift: int, relu: bool = False, zero_point: int = 0) -> str:
        output = replace(self.type_of(a), zero_point=zero_point)
        low = zero_point if relu else output.lo
        return self.append(
            Add(self.next_name("add"), (a, b), output, multipliers=multipliers, shift=shift, lo=low, hi=output.hi)
        )

    def pool(self, kind: type[MaxPool], source: str, kernel: Pair, stride: Pair, padding: Padding) -> str:
        before = self.type_of(source)
        output = replace(before, shape=pooled(before.shape, kernel, stride, padding))
        return self.append(kind(self.next_name("pool"), source, output, kernel=kernel, stride=stride, padding=padding))

    def average(
        self,
        source: str,
        kernel: Pair,
        stride: Pair = (1, 1),
        padding: Padding = (0, 0, 0, 0),
        form: Form = "multiplier",
    ) -> str:
        before = self.type_of(source)
        output = replace(before, shape=pooled(before.shape, kernel, stride, padding))
        spread = np.full(before.shape[2], (before.hi - before.lo) / 4 * kernel[0] * kernel[1])
        name = self.next_name("average")
        requantize = self.requantize(form, spread, output)
        return self.append(
            AveragePool(name, source, output, kernel=kernel, stride=stride, requantize=requantize, padding=padding)
        )

    def rescale(self, source: str, output: TensorType, form: Form) -> str:
        before = self.type_of(source)
        after = replace(output, shape=before.shape)
        spread = np.full(before.shape[2], (before.hi - before.lo) / 3)
        return self.append(Rescale(self.next_name("rescale"), source, after, self.requantize(form, spread, after)))

    def clamp(self, source: str, lo: int, hi: int) -> str:
        return self.append(Clamp(self.next_name("clamp"), source, self.type_of(source), lo, hi))

    def concat(self, *sources: str) -> str:
        first = self.type_of(sources[0])
        channels = sum(self.type_of(source).shape[2] for source in sources)
        output = replace(first, shape=(*first.shape[:2], channels))
        return self.append(Concat(self.next_name("concat"), sources, output))

    def upsample(self, source: str, factor: Pair) -> str:
        before = self.type_of(source)
        output = replace(before, shape=(before.shape[0] * factor[0], before.shape[1] * factor[1], before.shape[2]))
        return self.append(Upsample(self.next_name("upsample"), source, output, factor=factor))

    def lookup(self, source: str, output: TensorType, per_channel: bool = False) -> str:
        """Append a random table, which keeps nothing of the order of the input's integers."""
        before = self.type_of(source)
        after = replace(output, shape=before.shape)
        table = self.rng.integers(after.lo, after.hi + 1, (before.shape[2] if per_channel else 1, 256))
        return self.append(Lookup(self.next_name("lookup"), source, after, table.astype(after.dtype)))

    def made_lookup(self, source: str, output: TensorType, function: FunctionName) -> str:
        """Append tables of a function that a recipe makes, another one for each channel."""
        after = replace(output, shape=self.type_of(source).shape)
        start, step, scale = (self.rng.uniform(*ends, after.shape[2]) for ends in ((-9, 0), (0.01, 0.1), (0.02, 0.1)))
        recipe = TableRecipe.of(function, start, step, scale, after, 0.2, 0.5)
        return self.append(Lookup(self.next_name("lookup"), source, after, recipe))

    def product(self, a: str, b: str, output: TensorType, form: Form) -> str:
        before = self.type_of(a)
        after = replace(output, shape=before.shape)
        spread = np.full(before.shape[2], (before.hi - before.lo) * 60.0)
        return self.append(
            Product(self.next_name("product"), (a, b), after, requantize=self.requantize(form, spread, after))
        )

    def pad(self, source: str, padding: Padding, spacing: Pair = (1, 1)) -> str:
        before = self.type_of(source)
        height = padding[0] + (before.shape[0] - 1) * spacing[0] + 1 + padding[2]
        width = padding[1] + (before.shape[1] - 1) * spacing[1] + 1 + padding[3]
        output = replace(before, shape=(height, width, before.shape[2]))
        return self.append(Pad(self.next_name("pad"), source, output, padding=padding, spacing=spacing))

    def slice(self, source: str, start: Shape, stop: Shape, step: Shape = (1, 1, 1)) -> str:
        before = self.type_of(source)
        height, width, channels = (len(range(*span)) for span in zip(start, stop, step, strict=True))
        output = replace(before, shape=(height, width, channels))
        return self.append(Slice(self.next_name("slice"), source, output, start=start, stop=stop, step=step))

    def shuffle(self, source: str, groups: int) -> str:
        return self.append(ChannelShuffle(self.next_name("shuffle"), source, self.type_of(source), groups=groups))

    def bilinear(self, source: str, size: Pair, coordinates: Coordinates) -> str:
        before = self.type_of(source)
        output = replace(before, shape=(*size, before.shape[2]))
        return self.append(ResizeBilinear(self.next_name("bilinear"), source, output, coordinates=coordinates))

    def observe(self, source: str) -> Case:
        """End in a raw dense layer of 5 labels that sees every element of `source`."""
        size = int(np.prod(self.type_of(source).shape))
        magnitudes = self.rng.integers(1, 128, (5, size))
        values = np.where(self.rng.integers(0, 2, (5, size)), magnitudes, -magnitudes).astype(np.int8)
        self.dense(source, 5, weights=lambda shape: FixedWeights(values, 8, np.array([2.0**-7])))
        return self.finish()

    def finish(self) -> Case:
        """End as a classification by the last layer."""
        last = self.layers[-1]
        return self.finish_as(Classification(tuple(f"class {i}" for i in range(last.output.shape[2]))), last.name)

    def finish_as(self, task: Task, *outputs: str) -> Case:
        colour: Literal["rgb", "gray"] = "rgb" if self.input.shape[2] == 3 else "gray"
        ramp = np.linspace(self.input.lo, self.input.hi, 256)
        table = np.round(ramp)[np.newaxis].astype(self.input.dtype)
        preprocessing = Preprocessing("center", colour, table)
        return Case(self.name, Model(self.name, self.input, tuple(self.layers), outputs, task, preprocessing))


def raw(shape: Shape, scale: float = 2.0**-10) -> TensorType:
    """Type of accumulators that leave the network as they are."""
    return TensorType(shape, bits=32, scale=scale)


def pooled(shape: Shape, kernel: Pair, stride: Pair, padding: Padding) -> Shape:
    height = (shape[0] + padding[0] + padding[2] - kernel[0]) // stride[0] + 1
    width = (shape[1] + padding[1] + padding[3] - kernel[1]) // stride[1] + 1
    return height, width, shape[2]


def assert_equal_outputs(found: Sequence[NDArray[Any]], expected: Sequence[NDArray[Any]], place: str = "") -> None:
    """Same number of outputs, each of the same shape, dtype and integers."""
    for number, (one, other) in enumerate(zip(found, expected, strict=True)):
        np.testing.assert_array_equal(one, other, err_msg=f"{place} output {number}", strict=True)
