"""The table of layers and backends in docs/backends.md, from what the backends say that they support."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple, get_args

import numpy as np

from edgemeta.model.layers import (
    Add,
    Affine,
    AveragePool,
    Clamp,
    Constant,
    Conv,
    Dense,
    Joining,
    Layer,
    Lookup,
    MatMul,
    MaxPool,
    Moving,
    Multiplier,
    Normalize,
    Product,
    Rescale,
    ResizeBilinear,
    Softmax,
    TensorType,
    Upsample,
)
from edgemeta.model.weights import BinaryWeights, FixedWeights
from edgemeta.plugins.registry import BUILT_IN, load

_MAP = TensorType((6, 6, 4))
_HALF = TensorType((3, 3, 4))
_POINT = TensorType((1, 1, 4))
_DOUBLE = TensorType((12, 12, 4))
_SCALE = np.array([1.0])
_HALVED = Multiplier(np.array([1], np.int32), np.array([1], np.uint8), -128, 127)
_TABLE = np.zeros((1, 256), np.int8)


class Row(NamedTuple):
    """A row: what it says, and a layer of that kind."""

    text: str
    layer: Layer

    @property
    def inputs(self) -> Sequence[TensorType]:
        """Types of what the layer reads."""
        return (_MAP, _MAP) if isinstance(self.layer, Joining) else (_MAP,)


def rows() -> Iterator[Row]:
    """Every kind of layer, and where a backend may draw a line inside a kind."""
    conv = Conv("conv", "input", _MAP, weights=_fixed(4, 1, 1, 4), requantize=_HALVED)
    depthwise = replace(conv, weights=_fixed(4, 1, 1, 1), groups=4)
    dilated = replace(conv, weights=_fixed(4, 3, 3, 4), padding=(2, 2, 2, 2), dilation=(2, 2))
    wide = BinaryWeights(np.ones((2, 4, 1, 1, 4), np.int8), np.full((4, 2), 30_000, np.int16), _SCALE)
    whole = AveragePool("pool", "input", _POINT, kernel=(6, 6), stride=(1, 1), requantize=_HALVED)
    yield Row("conv of one group, weights of at most 16 bits", conv)
    yield Row("conv of one group, weights of more bits (binary bases)", replace(conv, weights=wide))
    yield Row("conv of several groups, depthwise included", depthwise)
    yield Row("conv with dilation", dilated)
    yield Row(
        "dense, weights of any encoding", Dense("dense", "input", _POINT, weights=_fixed(4, 144), requantize=_HALVED)
    )
    yield Row("add", Add("add", ("input", "other"), _MAP, multipliers=(1, 1), shift=1, lo=-128, hi=127))
    yield Row("clamp", Clamp("clamp", "input", _MAP, 0, 6))
    yield Row("rescale", Rescale("rescale", "input", _MAP, _HALVED))
    yield Row("average pool over the whole map", whole)
    yield Row("average pool over less, or padded", replace(whole, output=_HALF, kernel=(2, 2), stride=(2, 2)))
    yield Row("max pool", MaxPool("pool", "input", _HALF, kernel=(2, 2), stride=(2, 2)))
    yield Row("lookup: a table for a function of one element", Lookup("lookup", "input", _MAP, _TABLE))
    yield Row(
        "product of two tensors, or with one factor per channel",
        Product("product", ("input", "other"), _MAP, requantize=_HALVED),
    )
    ones, zeros = np.ones(4, np.int8), np.zeros(4, np.int32)
    affine = Affine("affine", "input", _MAP, factors=ones, scale=_SCALE, bias=zeros, requantize=_HALVED)
    yield Row("affine: a factor and a summand for each channel", affine)
    yield Row("constant", Constant("constant", "input", _MAP, values=np.zeros(_MAP.shape, np.int8)))
    scores = TensorType((6, 6, 36))
    yield Row(
        "matmul: products of two tensors over channels or positions",
        MatMul("matmul", ("input", "other"), scores, heads=1, transposed=True, requantize=_HALVED),
    )
    yield Row("softmax over groups of channels", Softmax("softmax", "input", _MAP, exponentials=np.ones(256, np.int32)))
    numbers = {"factors": ones, "scale": _SCALE, "bias": zeros, "requantize": _HALVED}
    yield Row(
        "normalize: by the mean and deviation of channels", Normalize("norm", "input", _MAP, epsilon=1, **numbers)
    )
    moving = (kind.kind.replace("_", " ") for kind in get_args(Layer) if issubclass(kind, Moving))
    yield Row(f"{', '.join(moving)}: elements only move", Upsample("upsample", "input", _DOUBLE, factor=(2, 2)))
    yield Row("bilinear resize", ResizeBilinear("resize", "input", _DOUBLE, coordinates="half_pixel"))


def table() -> str:
    """Return the table as Markdown."""
    backends = [load(name) for name in BUILT_IN]
    head = f"| layer | {' | '.join(f'`{backend.name}`' for backend in backends)} |"
    lines = [head, f"|{'---|' * (1 + len(backends))}"]
    for row in rows():
        answers = (backend.supports(row.layer, row.inputs) for backend in backends)
        lines.append(f"| {row.text} | {' | '.join('yes' if reason is None else 'no' for reason in answers)} |")
    return "\n".join(lines)


def _fixed(*shape: int) -> FixedWeights:
    return FixedWeights(np.ones(shape, np.int8), 8, _SCALE)
