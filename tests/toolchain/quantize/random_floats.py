"""Random float networks that pass their check: any layers in any order, numbers of any size, channels that are dead."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.graph import FloatModel
from edgemeta.model.layers import (
    Add,
    AveragePool,
    BatchNorm,
    ChannelShuffle,
    Concat,
    Conv,
    Dense,
    FloatLayer,
    Function,
    GlobalAverage,
    MaxPool,
    Pad,
    PRelu,
    Product,
    Relu,
    ResizeBilinear,
    Shape,
    Slice,
    Upsample,
    real,
)
from edgemeta.model.layers.functions import FUNCTIONS
from edgemeta.model.tasks import Classification

MAGNITUDES = (1e-30, 1e-12, 1e-6, 1e-3, 1.0, 1.0, 1.0, 1.0, 1e3, 1e6, 1e12)


class Draw:
    """Draws what networks are made of."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def between(self, least: int, most: int) -> int:
        return int(self.rng.integers(least, most + 1))

    def pair(self, least: int, most: int) -> tuple[int, int]:
        return self.between(least, most), self.between(least, most)

    def often(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def one_of(self, values: Any) -> Any:
        return values[self.between(0, len(values) - 1)]

    def numbers(self, *shape: int) -> NDArray[np.float32]:
        """Of one magnitude, or of one for each channel, some of which are 0 or nearly."""
        found = self.rng.standard_normal(shape) * self.one_of(MAGNITUDES)
        if self.often(0.4):
            found *= 10.0 ** self.rng.uniform(-12, 2, (shape[0], *[1] * (len(shape) - 1)))
        if self.often(0.2):
            found[self.between(0, shape[0] - 1)] = 0
        return found.astype(np.float32)

    def padding(self, covered: tuple[int, int]) -> tuple[int, int, int, int]:
        top, left, bottom, right = (self.between(0, side - 1) for side in covered * 2)
        return top, left, bottom, right


def _conv(draw: Draw, name: str, x: str, shape: Shape, _shapes: Mapping[str, Shape]) -> FloatLayer | None:
    kernel, dilation = draw.pair(1, 3), draw.pair(1, 2)
    groups = shape[2] if draw.often(0.3) else 1
    outputs = groups * draw.between(1, 2) if groups > 1 else draw.between(1, 5)
    rows, columns = ((side - 1) * step + 1 for side, step in zip(kernel, dilation, strict=True))
    padding = draw.padding((rows, columns))
    if rows > shape[0] + padding[0] + padding[2] or columns > shape[1] + padding[1] + padding[3]:
        return None
    weight = draw.numbers(outputs, *kernel, shape[2] // groups)
    bias = draw.numbers(outputs) if draw.often(0.7) else None
    return Conv(
        name, x, weights=weight, bias=bias, stride=draw.pair(1, 2), padding=padding, groups=groups, dilation=dilation
    )


def _norm(draw: Draw, name: str, x: str, shape: Shape, _shapes: Mapping[str, Shape]) -> FloatLayer:
    gamma, beta, mean, variance = (draw.numbers(shape[2]) for _ in range(4))
    return BatchNorm(name, x, gamma, beta, mean, np.abs(variance), draw.one_of((1e-12, 1e-5, 1e-3)))


def _pool(draw: Draw, name: str, x: str, shape: Shape, _shapes: Mapping[str, Shape]) -> FloatLayer:
    kernel = draw.between(1, shape[0]), draw.between(1, shape[1])
    kind = draw.one_of((MaxPool, AveragePool))
    return kind(name, x, kernel=kernel, stride=draw.pair(1, 2), padding=draw.padding(kernel))  # type: ignore[no-any-return]


def _add(draw: Draw, name: str, x: str, shape: Shape, shapes: Mapping[str, Shape]) -> FloatLayer:
    return Add(name, (x, draw.one_of([other for other, each in shapes.items() if each == shape])))


def _concat(draw: Draw, name: str, x: str, shape: Shape, shapes: Mapping[str, Shape]) -> FloatLayer:
    others = [other for other, each in shapes.items() if each[:2] == shape[:2]]
    return Concat(name, (x, *(draw.one_of(others) for _ in range(draw.between(0, 2)))))


def _product(draw: Draw, name: str, x: str, shape: Shape, shapes: Mapping[str, Shape]) -> FloatLayer:
    fitting = [other for other, each in shapes.items() if each in (shape, (1, 1, shape[2]))]
    return Product(name, (x, draw.one_of(fitting)))


def _moved(draw: Draw, name: str, x: str, shape: Shape, _shapes: Mapping[str, Shape]) -> FloatLayer:
    start = draw.between(0, shape[0] - 1), draw.between(0, shape[1] - 1), draw.between(0, shape[2] - 1)
    layers: tuple[FloatLayer, ...] = (
        Pad(name, x, padding=draw.padding((3, 3)), spacing=draw.pair(1, 2)),
        Upsample(name, x, factor=draw.pair(1, 2)),
        Slice(name, x, start=start, stop=shape, step=(1, draw.between(1, 2), 1)),
        ChannelShuffle(name, x, groups=shape[2]),
        ResizeBilinear(name, x, real(*draw.pair(1, 9)), coordinates="half_pixel"),
        GlobalAverage(name, x),
    )
    return draw.one_of(layers)  # type: ignore[no-any-return]


def _function(draw: Draw, name: str, x: str, shape: Shape, _shapes: Mapping[str, Shape]) -> FloatLayer:
    if draw.often(0.1):
        return PRelu(name, x, draw.numbers(shape[2]))
    if draw.often(0.5):
        return Relu(name, x, draw.one_of((None, None, 6.0, 1e-20, 1e9)))
    return Function(name, x, draw.one_of(FUNCTIONS), -0.25, 0.5)


_KINDS: tuple[Callable[..., FloatLayer | None], ...] = (
    *[_conv] * 4,
    _norm,
    _pool,
    _add,
    _concat,
    _product,
    _moved,
    _moved,
    _function,
    _function,
)


def random_float_network(seed: int) -> FloatModel:
    """Some layers of any kind, then mostly a dense one; mostly with the preprocessing of the paper."""
    draw = Draw(seed)
    shapes: dict[str, Shape] = {"input": (*draw.pair(1, 8), 3)}
    layers: list[FloatLayer] = []
    last = "input"

    def append(layer: FloatLayer | None) -> None:
        nonlocal last
        if layer is not None:
            sources = layer.inputs if isinstance(layer, Add | Concat | Product) else (layer.input,)
            shapes[layer.name] = layer.shape(*(shapes[name] for name in sources))
            layers.append(layer)
            last = layer.name

    for number in range(draw.between(1, 6)):
        append(draw.one_of(_KINDS)(draw, f"layer{number}", last, shapes[last], shapes))
    if draw.often(0.8) or shapes[last][:2] != (1, 1) or shapes[last][2] < 2 or last == "input":
        bias = draw.numbers(2) if draw.often(0.7) else None
        append(Dense("out", last, weights=draw.numbers(2, int(np.prod(shapes[last]))), bias=bias))
    if draw.often(0.1):
        append(Relu("end", last))
    labels = tuple(f"class {number}" for number in range(shapes[last][2]))
    mean, scale = (128.0,), (128.0,)
    if draw.often(0.3):
        mean, scale = tuple(draw.rng.uniform(-300, 600, 3)), tuple(10.0 ** draw.rng.uniform(-6, 6, 3))
    return FloatModel("random", shapes["input"], tuple(layers), (last,), Classification(labels), mean, scale)
