"""Networks for the fpga backend with random weights: power-of-two or fixed codes, requantized by shift and table."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from edgemeta.model import reference
from edgemeta.model.graph import INPUT, Model, Preprocessing
from edgemeta.model.layers import (
    Add,
    AveragePool,
    Clamp,
    Conv,
    Dense,
    Layer,
    Multiplier,
    Padding,
    Requantize,
    Shape,
    ShiftTable,
    TensorType,
)
from edgemeta.model.prove import prove
from edgemeta.model.tasks import Classification
from edgemeta.model.weights import FixedWeights, PowerOfTwoWeights, Weights

Form = Literal["tables", "lines", "table", "clamp", "clamps"]
"""Requantization: a shift and table per channel (lines: each one), one for all, a shift and clamp, or one each."""


@dataclass
class PowerOfTwoBuilder:
    """Appends layers; each method returns the name of its tensor. Shifts follow the spread of the accumulators."""

    source: TensorType
    seed: int = 0
    form: Form = "tables"
    bits: int = 5
    layers: list[Layer] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)
        shape = (4, *self.source.shape)
        self.images = self.rng.integers(self.source.lo, self.source.hi + 1, shape).astype(self.source.dtype)

    def conv(
        self,
        name: str,
        source: str,
        channels: int,
        kernel: int = 3,
        stride: int = 1,
        padding: Padding | None = None,
        output: TensorType | None = None,
        fixed: int = 0,
    ) -> str:
        """A convolution; padding None keeps H / stride. fixed: bits of fixed weights, 0 for power-of-two ones."""
        height, width, depth = self._type(source).shape
        padding = padding or (kernel // 2,) * 4
        shape = (
            (height + padding[0] + padding[2] - kernel) // stride + 1,
            (width + padding[1] + padding[3] - kernel) // stride + 1,
            channels,
        )
        weights = self._weights((channels, kernel, kernel, depth), fixed)
        bias = self.rng.integers(-500, 500, channels).astype(np.int32)
        layer = Conv(
            name, source, _like(output, shape), weights=weights, bias=bias, stride=(stride, stride), padding=padding
        )
        return self._requantized(layer, self.form)

    def dense(self, name: str, source: str, units: int, fixed: int = 0, *, raw: bool = True) -> str:
        """A dense layer with 32-bit logits, or requantized ones."""
        elements = int(np.prod(self._type(source).shape))
        bias = self.rng.integers(-500, 500, units).astype(np.int32)
        output = TensorType((1, 1, units), bits=32) if raw else TensorType((1, 1, units))
        layer = Dense(name, source, output, weights=self._weights((units, elements), fixed), bias=bias)
        if raw:
            self.layers.append(layer)
            return name
        return self._requantized(layer, self.form)

    def pool(self, name: str, source: str) -> str:
        """A global average pool."""
        height, width, channels = self._type(source).shape
        exact = int(np.log2(height * width)) if self.form in ("clamp", "clamps") else None
        kernel = (height, width)
        layer = AveragePool(
            name, source, TensorType((1, 1, channels)), kernel=kernel, stride=kernel, requantize=_identity(0)
        )
        return self._requantized(layer, self.form, exact)

    def add(self, name: str, a: str, b: str, exponents: tuple[int, int] = (0, 0), shift: int = 1, lo: int = 0) -> str:
        """A residual addition with multipliers that are powers of two."""
        output = TensorType(self._type(a).shape)
        multipliers = (1 << exponents[0], 1 << exponents[1])
        self.layers.append(Add(name, (a, b), output, multipliers=multipliers, shift=shift, lo=lo, hi=127))
        return name

    def clamp(self, name: str, source: str, lo: int = 0, hi: int = 127) -> str:
        """A clamp."""
        self.layers.append(Clamp(name, source, self._type(source), lo, hi))
        return name

    def model(self, output: str, name: str = "random") -> Model:
        """The network, proved where its output is a vector, as every task demands."""
        made = self._model((output,), name)
        if made.output_types[0].shape[:2] == (1, 1):
            prove(made)
        return made

    def _model(self, outputs: Sequence[str], name: str = "random") -> Model:
        channels = self.source.shape[2]
        low = np.iinfo(self.source.dtype).min
        table = (np.arange(256) + low).astype(self.source.dtype)[np.newaxis]
        elements = int(np.prod(self._type(outputs[0]).shape))
        task = Classification(tuple(f"class {i}" for i in range(elements)))
        colour = "rgba"[:channels] if channels in (3, 4) else "y" * channels
        return Model(name, self.source, tuple(self.layers), tuple(outputs), task, Preprocessing("full", colour, table))

    def _type(self, name: str) -> TensorType:
        return self.source if name == INPUT else next(each.output for each in self.layers if each.name == name)

    def _weights(self, shape: tuple[int, ...], fixed: int) -> Weights:
        if fixed:
            values = self.rng.integers(-(1 << fixed - 1), 1 << fixed - 1, shape).astype(np.int8)
            return FixedWeights(values, fixed, np.array([1.0]))
        magnitude = self.rng.integers(0, (1 << self.bits - 2) + 1, shape).astype(np.uint8)
        sign = np.where(magnitude > 0, self.rng.integers(0, 2, shape), 0).astype(np.uint8)
        return PowerOfTwoWeights(sign << (self.bits - 1) | magnitude, self.bits, np.array([1.0]))

    def _requantized(self, layer: Conv | Dense | AveragePool, form: Form, exact: int | None = None) -> str:
        """Append the layer with a shift that brings its accumulators to about -128 .. 127."""
        fields = {**layer.__dict__, "requantize": None, "output": TensorType(layer.output.shape, bits=32)}
        if isinstance(layer, AveragePool):
            source = self._trace(layer.input).astype(np.int64) - self._type(layer.input).zero_point
            spread = float(np.abs(source.sum(axis=(1, 2))).max())
        else:
            self.layers.append(type(layer)(**fields))
            spread = float(np.abs(self._trace(layer.name)).std())
            self.layers.pop()
        shift = exact if exact is not None else max(0, int(np.log2(max(spread, 1.0) / 64.0)) + 1)
        fields |= {"output": layer.output, "requantize": self._requantize(form, shift, layer.output)}
        self.layers.append(type(layer)(**fields))
        return layer.name

    def _requantize(self, form: Form, shift: int, output: TensorType) -> Requantize:
        channels = output.shape[2] if form in ("tables", "lines", "clamps") else 1
        shifts = (shift + self.rng.integers(0, 2, channels)).astype(np.uint8)
        if form in ("clamp", "clamps"):
            multiplier = (1 << self.rng.integers(0, 3, channels)).astype(np.int32)
            shifts = (shifts + np.log2(multiplier)).astype(np.uint8)
            return Multiplier(multiplier, shifts, output.zero_point, output.hi)
        return ShiftTable(shifts, self._table(channels, output))

    def _table(self, channels: int, output: TensorType) -> NDArray[np.int8] | NDArray[np.uint8]:
        """ReLU behind a gain and an offset of each channel; of "tables" every fourth one is random."""
        t = np.arange(-128, 128)
        gain, offset = self.rng.uniform(0.5, 2, (channels, 1)), self.rng.uniform(-20, 20, (channels, 1))
        table = np.clip(np.floor(t * gain + offset + 0.5) + output.zero_point, output.zero_point, output.hi)
        for channel in range(3, channels if self.form == "tables" else 0, 4):
            table[channel] = self.rng.integers(output.lo, output.hi + 1, 256)
        entries: NDArray[np.int8] | NDArray[np.uint8] = table.astype(output.dtype)
        return entries

    def _trace(self, name: str) -> NDArray[np.int64]:
        if name == INPUT:
            return self.images
        found: NDArray[np.int64] = reference.trace(self._model((name,)), self.images)[name]
        return found


def _like(output: TensorType | None, shape: Shape) -> TensorType:
    kind = output or TensorType(shape)
    return TensorType(shape, kind.bits, kind.signed, kind.zero_point)


def _identity(shift: int) -> ShiftTable:
    return ShiftTable(np.array([shift], np.uint8), np.arange(-128, 128).astype(np.int8)[np.newaxis])


def random_resnet8(seed: int = 0, bits: int = 5, form: Form = "tables", side: int = 32, width: int = 16) -> Model:
    """ResNet-8 with random codes; side and width make it smaller for tests."""
    net = PowerOfTwoBuilder(TensorType((side, side, 3)), seed, form, bits)
    x = net.conv("conv0", INPUT, width)
    x = net.add("add2", net.conv("conv2", net.conv("conv1", x, width), width), x)
    for number, channels in ((3, 2 * width), (6, 4 * width)):
        shortcut = net.conv(f"conv{number}", x, channels, 1, 2)
        y = net.conv(f"conv{number + 1}", x, channels, 3, 2)
        x = net.add(f"add{number + 2}", net.conv(f"conv{number + 2}", y, channels), shortcut)
    return net.model(net.dense("fc", net.pool("pool", x), 10), f"random ResNet-8 of {bits} bits")
