"""Random small networks by number: chains and branches of every kind of layer, any of which may read the image.

Numbers go through every ordered pair of kinds: the second layer reads the first alone, as planners want it for
a fusion, and both draw their zero points.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.graph import INPUT
from edgemeta.model.layers import Coordinates, MaxPool, Multiplier, Padding, Pair, Requantize, TensorType
from edgemeta.model.weights import Weights
from tests.conformance.networks import Case, Form, NetworkBuilder
from tests.conformance.operators import OPERATORS

_T = TypeVar("_T")

FORMS: tuple[Form, ...] = ("multiplier", "multiplier-per-layer", "table", "table-per-layer")
NONE: Padding = (0, 0, 0, 0)
WINDOWS = ("max-pool", "average")
_DRAWN = (
    *("dense", "conv", "conv-3x3", "conv-whole", "average-global", "rescale", "clamp", "add"),
    *("depthwise", "groups", "dilated", *WINDOWS, "concat", "upsample", "lookup", "product", "pad", "slice", "shuffle"),
    "bilinear",
)
_OTHERS = {each.name: each for each in OPERATORS if each.name not in (*_DRAWN, "conv-1x1")}
"""Operators that are drawn here as the table has them."""
KINDS = (*_DRAWN, *_OTHERS)
COMMON = tuple(kind for kind in KINDS if kind not in ("constant", "matmul", "softmax", "normalize"))
"""Without those that only the reference and the cpu backend have."""
_MOST_CHANNELS = 70
_LONGEST_SIDE = 20


def random_network(number: int, kinds: Sequence[str] = KINDS) -> Case:
    """Random network `number`: its first layer is of kind `number` modulo K, the number of kinds.

    Its second one is of kind `number` + `number` / K modulo K, so that K * K numbers have every pair.
    """
    return _Random(number, kinds).case()


class _Ties(NetworkBuilder):
    """Half of the layers have multipliers of two significant bits, so that exact ties are common."""

    def requantize(self, form: Form, spread: NDArray[np.float64], output: TensorType) -> Requantize:
        made = super().requantize(form, spread, output)
        if isinstance(made, Multiplier) and self.rng.integers(2):
            low = np.maximum(np.log2(np.maximum(made.multiplier, 1)).astype(np.int64) - 1, 0)
            return replace(made, multiplier=(made.multiplier >> low << low).astype(np.int32))
        return made


class _Random:
    def __init__(self, number: int, kinds: Sequence[str]) -> None:
        self.rng = np.random.default_rng(number)
        self.kinds = kinds
        self.pair = kinds[number % len(kinds)], kinds[(number + number // len(kinds)) % len(kinds)]
        channels = 3 if self.rng.integers(2) else 1
        shape = (self._between(1, 13), self._between(1, 13), channels)
        self.net = _Ties(f"random-{number}", replace(self._type(), shape=shape))
        self.tensors = [INPUT]

    def case(self) -> Case:
        for kind in self.pair:
            self.tensors.append(self._layer(kind, self.tensors[-1]))
        if self.rng.integers(2):
            del self.tensors[1]  # nothing but the pair's second layer reads the first
        for _ in range(self._between(0, 4)):
            source = self.tensors[-1] if self.rng.integers(3) else self._one_of(self.tensors)
            self.tensors.append(self._layer(self._one_of(self.kinds), source))
        last = self.tensors[-1]
        is_line = self.net.type_of(last).shape[:2] == (1, 1) and last != INPUT
        if is_line and last == self.net.layers[-1].name and self.rng.integers(2):
            return self.net.finish()
        return self.net.observe(last)

    def _layer(self, kind: str, source: str) -> str:
        """Append a layer of a kind, or return the source if the kind does not fit."""
        make: dict[str, Callable[[str], str]] = {
            "dense": lambda x: self.net.dense(x, self._between(1, 40), **self._weighted()),
            "conv": self._conv,
            "conv-3x3": self._conv_3x3,
            "conv-whole": self._conv_whole,
            "average-global": lambda x: self.net.average(x, self._sides(x), form=self._form()),
            "rescale": lambda x: self.net.rescale(x, self._type(), self._form()),
            "clamp": self._clamp,
            "add": self._add,
            "depthwise": lambda x: self._grouped(x, self._channels(x)),
            "groups": lambda x: self._grouped(x, self._one_of(_divisors(self._channels(x)))),
            "max-pool": lambda x: self.net.pool(MaxPool, x, *self._window(x)),
            "average": lambda x: self.net.average(x, *self._window(x), form=self._form()),
            "concat": self._concat,
            "upsample": self._upsample,
            "dilated": self._dilated,
            "lookup": lambda x: self.net.lookup(x, self._type(), bool(self.rng.integers(2))),
            "product": self._product,
            "pad": self._pad,
            "slice": self._slice,
            "shuffle": lambda x: self.net.shuffle(x, self._one_of(_divisors(self._channels(x)))),
            "bilinear": self._bilinear,
        }
        if kind in make:
            return make[kind](source)
        setting = {name: self._one_of(values) for name, values in _OTHERS[kind].fields.items()}
        return _OTHERS[kind].make(self.net, source, setting, self._type())

    def _conv(self, source: str) -> str:
        kernel, stride, padding = self._window(source)
        return self.net.conv(source, self._between(1, 20), kernel, stride, padding, **self._weighted())

    def _conv_3x3(self, source: str) -> str:
        """What Winograd and matrix instructions run, mostly of 16 channels or more."""
        if self._channels(source) < 16 and self.rng.integers(4):
            source = self.net.conv(source, self._one_of((16, 20, 32)), (1, 1), padding=NONE, form=self._form())
        channels = self._one_of((3, 16, 32, 33))
        stride = self._one_of(((1, 1), (1, 1), (2, 2)))
        return self.net.conv(source, channels, stride=stride, form=self._form(), output=self._type())

    def _conv_whole(self, source: str) -> str:
        return self.net.conv(source, self._between(1, 20), self._sides(source), padding=NONE, **self._weighted())

    def _grouped(self, source: str, groups: int) -> str:
        kernel, stride, padding = self._window(source)
        channels = groups * self._between(1, 3)
        return self.net.conv(source, channels, kernel, stride, padding, groups=groups, **self._weighted())

    def _clamp(self, source: str) -> str:
        kind = self.net.type_of(source)
        lo, hi = sorted(self.rng.integers(kind.lo, kind.hi + 1, 2).tolist())
        return self.net.clamp(source, lo, hi)

    def _add(self, source: str) -> str:
        shape = self.net.type_of(source).shape
        others = [name for name in self.tensors if self.net.type_of(name).shape == shape]
        if self.rng.integers(2):  # a convolution that the addition may join
            stride, kernel, padding = (1, 1), *self._one_of((((1, 1), NONE), ((3, 3), (1, 1, 1, 1))))
            output = self._type()
            others = [self.net.conv(source, shape[2], kernel, stride, padding, form=self._form(), output=output)]
        other = self._one_of(others)
        operands = (source, other) if self.rng.integers(2) else (other, source)
        anything = (self._between(0, (1 << 21) + 1), self._between(0, (1 << 21) + 1)), self._between(19, 24)
        with_ties = ((1, 1), 0), ((1, 1), 1), ((3, 1), 2), ((5 << 13, 3 << 13), 16), ((1 << 21, 1 << 20), 22)
        multipliers, shift = self._one_of((anything, *with_ties))
        kind = self.net.type_of(operands[0])
        zero_point = self._between(kind.lo, kind.hi + 1)
        relu = bool(self.rng.integers(2))
        return self.net.add(*operands, multipliers=multipliers, shift=shift, relu=relu, zero_point=zero_point)

    def _concat(self, source: str) -> str:
        kind = self.net.type_of(source)

        def fits(name: str) -> bool:
            other = self.net.type_of(name)
            return replace(other, shape=kind.shape) == kind and other.shape[:2] == kind.shape[:2]

        parts = [source, *(name for name in self.tensors if fits(name))][:3]
        channels = sum(self._channels(name) for name in parts)
        return self.net.concat(*parts) if channels <= _MOST_CHANNELS else source

    def _upsample(self, source: str) -> str:
        factor = (self._between(1, 4), self._between(1, 4))
        height, width = self._sides(source)
        is_small = max(height * factor[0], width * factor[1]) <= _LONGEST_SIDE
        return self.net.upsample(source, factor) if is_small else source

    def _dilated(self, source: str) -> str:
        """Padded so that the input fills a window: by nearly all that the kernel covers, above and below."""
        kernel, dilation = (self._between(1, 4), self._between(1, 4)), (self._between(1, 4), self._between(1, 4))
        rows, columns = ((taps - 1) * step for taps, step in zip(kernel, dilation, strict=True))
        groups = self._one_of((1, 1, *_divisors(self._channels(source))))
        channels = groups * self._between(1, 20 // groups + 2)
        padding = (rows, columns, self._between(0, rows + 1), self._between(0, columns + 1))
        return self.net.conv(
            source, channels, kernel, padding=padding, groups=groups, dilation=dilation, **self._weighted()
        )

    def _product(self, source: str) -> str:
        shape = self.net.type_of(source).shape
        fitting = [name for name in self.tensors if self.net.type_of(name).shape in (shape, (1, 1, shape[2]))]
        return self.net.product(source, self._one_of([source, *fitting]), self._type(), self._form())

    def _pad(self, source: str) -> str:
        spacing = self._between(1, 3), self._between(1, 3)
        padding = tuple(self._between(0, 4) for _ in range(4))
        is_small = max(self._sides(source)) <= _LONGEST_SIDE // 2
        return self.net.pad(source, padding, spacing) if is_small else source  # type: ignore[arg-type]

    def _slice(self, source: str) -> str:
        shape = self.net.type_of(source).shape
        start = tuple(self._between(0, side) for side in shape)
        stop = tuple(self._between(first + 1, side + 1) for first, side in zip(start, shape, strict=True))
        step = tuple(self._between(1, 4) for _ in shape)
        return self.net.slice(source, start, stop, step)  # type: ignore[arg-type]

    def _bilinear(self, source: str) -> str:
        size = self._between(1, _LONGEST_SIDE), self._between(1, _LONGEST_SIDE)
        coordinates: tuple[Coordinates, ...] = ("half_pixel", "align_corners", "asymmetric")
        return self.net.bilinear(source, size, self._one_of(coordinates))

    def _window(self, source: str) -> tuple[Pair, Pair, Padding]:
        """Kernel, stride and padding below the kernel, so that the input fills a window at least."""
        sides = self._sides(source)
        (rows, top, bottom), (columns, left, right) = (self._axis(side) for side in sides)
        return (rows, columns), (self._between(1, 4), self._between(1, 4)), (top, left, bottom, right)

    def _axis(self, side: int) -> tuple[int, int, int]:
        """A kernel's size, and padding before and after."""
        size = self._between(1, min(side + 2, 6))
        before = self._between(0, size)
        return size, before, self._between(max(size - side - before, 0), size)

    def _weighted(self) -> dict[str, Any]:
        """Weights, requantization and output of a layer that has weights."""
        encodings: list[Callable[[tuple[int, ...]], Weights]] = [
            self.net.fixed,
            partial(self.net.fixed, bits=self._between(1, 9), per_channel=True),
            partial(self.net.power_of_two, bits=self._between(2, 6)),
            partial(self.net.binary, bases=self._between(1, 9)),
        ]
        return {"weights": self._one_of(encodings), "form": self._form(), "output": self._type()}

    def _type(self) -> TensorType:
        """Mostly 8 bits, any zero point."""
        bits = 8 if self.rng.integers(4) else self._between(1, 9)
        kind = TensorType((1, 1, 1), bits, bool(self.rng.integers(2)), 0, 2.0**-4)
        return replace(kind, zero_point=self._between(kind.lo, kind.hi + 1))

    def _form(self) -> Form:
        return self._one_of(FORMS)

    def _sides(self, name: str) -> Pair:
        return self.net.type_of(name).shape[:2]

    def _channels(self, name: str) -> int:
        return self.net.type_of(name).shape[2]

    def _between(self, first: int, end: int) -> int:
        return int(self.rng.integers(first, end))

    def _one_of(self, values: Sequence[_T]) -> _T:
        return values[int(self.rng.integers(len(values)))]


def _divisors(number: int) -> list[int]:
    return [n for n in range(1, number + 1) if number % n == 0]
