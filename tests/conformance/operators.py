"""Every operator with the limits of its fields, from which the tables of pairs and limits are generated.

An operator reads one map and is built with a value for each of its fields: the first value of a field is its usual one,
the others are its limits. Windows, factors and groups suit any map. Convolutions and dense layers have as many outputs
as the network's source has channels.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from math import gcd, isqrt
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.fixedpoint import INT32_MAX, INT32_MIN
from edgemeta.model.layers import (
    MAX_SIDE,
    Add,
    Affine,
    AveragePool,
    Clamp,
    Constant,
    Conv,
    Dense,
    DepthToSpace,
    MatMul,
    MaxPool,
    Multiplier,
    Normalize,
    Padding,
    Pair,
    Product,
    Rearrange,
    Requantize,
    Rescale,
    ShiftTable,
    Softmax,
    Take,
    TensorType,
)
from edgemeta.model.weights import BinaryWeights, FixedWeights, PowerOfTwoWeights, Weights
from tests.conformance.networks import NetworkBuilder, pooled

CHANNELS = 18
"""A block of sixteen and two more; a multiple of the groups."""
GROUPS = 6
NONE: Padding = (0, 0, 0, 0)

Setting: TypeAlias = Mapping[str, Any]
Rounding: TypeAlias = tuple[Any, ...]
"""("multiplier", multiplier, shift, clamp) or ("table", shift, entries); None stands for a value that fits the sums."""
Window: TypeAlias = tuple[Pair, Pair, Padding, Pair]
"""Kernel, stride, padding, dilation."""


@dataclass(frozen=True)
class Operator:
    """make(net, source, setting, output) appends the operator and returns its tensor's name.

    output: the type of its result where that is not the input's.
    """

    name: str
    fields: Mapping[str, tuple[Any, ...]]
    make: Callable[[NetworkBuilder, str, Setting, TensorType], str]

    @property
    def usual(self) -> Setting:
        """The first value of each field."""
        return {name: values[0] for name, values in self.fields.items()}

    def one_at_a_time(self) -> Iterator[Setting]:
        """The usual setting, and one for each limit of each field."""
        yield self.usual
        for name, values in self.fields.items():
            yield from ({**self.usual, name: value} for value in values[1:])

    def every(self) -> Iterator[Setting]:
        """The whole product of all values of all fields."""
        yield from (dict(zip(self.fields, values, strict=True)) for values in product(*self.fields.values()))


ROUNDINGS: tuple[Rounding, ...] = (
    ("multiplier", None, None, "whole"),
    *(("multiplier", m, s, "whole") for m in (0, 1, 2**30, 2**31 - 1) for s in (0, 1, 31, 32, 61, 62)),
    *(("multiplier", None, None, clamp) for clamp in ("lowest", "highest", "zero point")),
    *(("table", s, entries) for s in (None, 0, 1, 30, 31) for entries in ("rising", "falling", "any", "ends")),
)
WINDOWS: tuple[Window, ...] = (
    ((3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),
    ((1, 1), (1, 1), NONE, (1, 1)),
    ((1, 1), (MAX_SIDE, MAX_SIDE), NONE, (1, 1)),
    ((2, 3), (5, 4), (1, 2, 1, 2), (1, 1)),
    ((9, 8), (1, 1), (8, 7, 8, 7), (1, 1)),
)
DILATED: tuple[Window, ...] = (((2, 2), (1, 1), (3, 2, 0, 1), (3, 2)), ((2, 1), (1, 1), (50, 0, 50, 0), (50, MAX_SIDE)))
WEIGHTS = (
    "fixed8",
    *(f"fixed{bits}" for bits in (1, 2, 4, 7)),
    *("lowest", "highest", "ends", "zeros"),
    *(f"power-of-two{bits}" for bits in range(2, 6)),
    *("binary1", "binary8", "greatest factors"),
)
AFFINE = ("fixed8", "lowest", "highest", "ends", "zeros")
BIASES = ("some", "none", "ends")
CLAMPS = ("whole", "lowest", "highest", "zero point")


def _weights(net: NetworkBuilder, kind: str, shape: tuple[int, ...]) -> Weights:
    one = np.array([2.0**-7])
    fills = {"lowest": -128, "highest": 127, "zeros": 0}
    if kind in fills:
        return FixedWeights(np.full(shape, fills[kind], np.int8), 8, one)
    if kind == "ends":
        return FixedWeights(net.rng.choice([-128, 127], shape).astype(np.int8), 8, one)
    if kind == "greatest factors":
        return _greatest_factors(net, shape)
    number = int(kind[-1])
    if kind.startswith("power"):
        made = net.power_of_two(shape, number)
        return PowerOfTwoWeights(np.maximum(made.codes, made.codes & 1 << number - 1 | 1), number, made.scale)
    return net.binary(shape, number) if kind.startswith("binary") else net.fixed(shape, number)


def _greatest_factors(net: NetworkBuilder, shape: tuple[int, ...]) -> BinaryWeights:
    """Four pairs of factors at both ends: all weights are small but five of each channel, so that sums fit int32."""
    basis = (2 * net.rng.integers(0, 2, (8, shape[0], int(np.prod(shape[1:])))) - 1).astype(np.int8)
    basis[1::2, :, 5:] = basis[::2, :, 5:]
    factors = np.tile(np.array([2**15 - 1, -(2**15)], np.int16), (shape[0], 4))
    return BinaryWeights(basis.reshape(8, *shape), factors, np.array([2.0**-7]))


def _bias(net: NetworkBuilder, kind: str, decoded: NDArray[np.int32], source: TensorType) -> NDArray[np.int32] | None:
    """Of each channel; "ends": the accumulator's bounds reach both ends of int32 by turns."""
    channels = len(decoded)
    if kind == "none":
        return None
    if kind == "some":
        return net.bias(channels, float(net.spread(decoded, source).mean()))
    flat = decoded.reshape(channels, -1).astype(np.int64)
    below, above = source.lo - source.zero_point, source.hi - source.zero_point
    reach = np.where(flat > 0, flat * above, flat * below).sum(axis=1)
    depth = np.where(flat > 0, flat * below, flat * above).sum(axis=1)
    return np.where(np.arange(channels) % 2, INT32_MAX - reach, INT32_MIN - depth).astype(np.int32)


def _requantize(net: NetworkBuilder, rounding: Rounding, spread: NDArray[np.float64], output: TensorType) -> Requantize:
    """One for all channels, so that each limit meets the fastest method that can have it."""
    form, *values = rounding
    if form == "multiplier":
        multiplier, shift, clamp = values
        fitting = net.requantize("multiplier-per-layer", spread, output)
        lo, hi = _bounds(clamp, output)
        if multiplier is None:
            return replace(fitting, lo=lo, hi=hi)
        return Multiplier(np.array([multiplier], np.int32), np.array([shift], np.uint8), lo, hi)
    shift, entries = values
    ramp = np.round(np.linspace(output.lo, output.hi, 256))
    tables = {
        "rising": ramp,
        "falling": ramp[::-1],
        "any": net.rng.integers(output.lo, output.hi + 1, 256),
        "ends": np.where(np.arange(256) % 255 == 0, output.hi, output.lo),
    }
    fitting = net.requantize("table-per-layer", spread, output).shift
    shifts = fitting if shift is None else np.array([shift], np.uint8)
    return ShiftTable(shifts, tables[entries][np.newaxis].astype(output.dtype))


def _bounds(clamp: str, kind: TensorType) -> Pair:
    ends = {"lowest": (kind.lo, kind.lo), "highest": (kind.hi, kind.hi), "zero point": (kind.zero_point, kind.hi)}
    return ends.get(clamp, (kind.lo, kind.hi))


def _conv(net: NetworkBuilder, x: str, set_: Setting, output: TensorType, groups: int | None = 1) -> str:
    before = net.type_of(x)
    kernel, stride, padding, dilation = set_["window"]
    depth = before.shape[2]
    groups = depth if groups is None else gcd(groups, depth)
    outputs = net.source.shape[2] if groups == 1 else depth
    weights = _weights(net, set_["weights"], (outputs, *kernel, depth // groups))
    covered = (kernel[0] - 1) * dilation[0] + 1, (kernel[1] - 1) * dilation[1] + 1
    sides = pooled(before.shape, covered, stride, padding)[:2]
    after = replace(output, shape=(*sides, weights.shape[0]))
    decoded = weights.decode()
    bias = _bias(net, set_["bias"], decoded, before)
    requantize = _requantize(net, set_["requantize"], net.spread(decoded, before), after)
    return net.append(
        Conv(
            net.next_name("conv"),
            x,
            after,
            weights=weights,
            bias=bias,
            stride=stride,
            padding=padding,
            groups=groups,
            requantize=requantize,
            dilation=dilation,
        )
    )


def _dense(net: NetworkBuilder, x: str, set_: Setting, output: TensorType) -> str:
    before = net.type_of(x)
    outputs = net.source.shape[2]
    weights = _weights(net, set_["weights"], (outputs, int(np.prod(before.shape))))
    after = replace(output, shape=(1, 1, outputs))
    decoded = weights.decode()
    bias = _bias(net, set_["bias"], decoded, before)
    requantize = _requantize(net, set_["requantize"], net.spread(decoded, before), after)
    return net.append(Dense(net.next_name("dense"), x, after, weights=weights, bias=bias, requantize=requantize))


def _affine(net: NetworkBuilder, x: str, set_: Setting, output: TensorType) -> str:
    before = net.type_of(x)
    weights = _weights(net, set_["weights"], (before.shape[2], 1))
    after, decoded = replace(output, shape=before.shape), weights.decode()
    numbers = {
        "factors": decoded[:, 0].astype(np.int8),
        "scale": weights.scale,
        "bias": _bias(net, set_["bias"], decoded, before),
        "requantize": _requantize(net, set_["requantize"], net.spread(decoded, before), after),
    }
    return net.append(Affine(net.next_name("affine"), x, after, **numbers))  # type: ignore[arg-type]


def _beside(net: NetworkBuilder, x: str) -> str:
    """Another tensor of the same shape where there is one, so that nothing else reads x."""
    return net.start if net.type_of(net.start).shape == net.type_of(x).shape else x


def _add(net: NetworkBuilder, x: str, set_: Setting, output: TensorType) -> str:
    after = replace(output, shape=net.type_of(x).shape)
    names = (x, _beside(net, x)) if set_["order"] == "first" else (_beside(net, x), x)
    multipliers, shift = set_["multipliers"], set_["shift"]
    lo, hi = _bounds(set_["clamp"], after)
    return net.append(Add(net.next_name("add"), names, after, multipliers=multipliers, shift=shift, lo=lo, hi=hi))


def _clamp(net: NetworkBuilder, x: str, set_: Setting, _output: TensorType) -> str:
    kind = net.type_of(x)
    inner = (kind.lo + (kind.hi - kind.lo) // 4, kind.hi - (kind.hi - kind.lo) // 4)
    lo, hi = inner if set_["bounds"] == "inner" else _bounds(set_["bounds"], kind)
    return net.append(Clamp(net.next_name("clamp"), x, kind, lo, hi))


def _rescale(net: NetworkBuilder, x: str, set_: Setting, output: TensorType) -> str:
    before = net.type_of(x)
    after = replace(output, shape=before.shape)
    requantize = _requantize(net, set_["requantize"], np.full(before.shape[2], (before.hi - before.lo) / 3), after)
    return net.append(Rescale(net.next_name("rescale"), x, after, requantize))


def _max_pool(net: NetworkBuilder, x: str, set_: Setting, _output: TensorType) -> str:
    return net.pool(MaxPool, x, *set_["window"][:3])


def _average(
    net: NetworkBuilder, x: str, set_: Setting, output: TensorType, whole: bool = False, inside: bool = False
) -> str:
    before = net.type_of(x)
    kernel, stride, padding, _ = (before.shape[:2], (1, 1), NONE, None) if whole else set_["window"]
    after = replace(output, shape=pooled(before.shape, kernel, stride, padding))
    layer = AveragePool(
        net.next_name("average"), x, after, kernel=kernel, stride=stride, padding=padding, inside=inside
    )
    if layer.area(before.shape) > 1 << 22:
        layer = replace(layer, inside=False)
    spread = np.full(before.shape[2], (before.hi - before.lo) / 4 * layer.area(before.shape))
    return net.append(replace(layer, requantize=_requantize(net, set_["requantize"], spread, after)))


def _concat(net: NetworkBuilder, x: str, set_: Setting, _output: TensorType) -> str:
    kind, start = net.type_of(x), net.type_of(net.start)
    if set_["parts"] == "alone" or start.shape[:2] != kind.shape[:2]:
        return net.concat(x)
    beside = net.conv(net.start, kind.shape[2], (1, 1), padding=NONE, output=kind)
    return net.concat(*{"after": (beside, x), "before": (x, beside), "twice": (x, x)}[set_["parts"]])


def _product(net: NetworkBuilder, x: str, set_: Setting, output: TensorType) -> str:
    before = net.type_of(x)
    after = replace(output, shape=before.shape)
    other = x
    if set_["other"] == "map":
        other = _beside(net, x)
    elif set_["other"] == "factors":
        sides = net.type_of(net.start).shape[:2]
        other = net.conv(net.start, before.shape[2], sides, padding=NONE, output=TensorType((1, 1, 1), zero_point=77))
    requantize = _requantize(net, set_["requantize"], np.full(before.shape[2], (before.hi - before.lo) * 60.0), after)
    return net.append(Product(net.next_name("product"), (x, other), after, requantize=requantize))


def _slice(net: NetworkBuilder, x: str, set_: Setting, _output: TensorType) -> str:
    shape = net.type_of(x).shape
    height, width, channels = shape
    ends = {
        "inner": ((height // 3, width // 3, min(GROUPS, channels - 1)), (height, width, channels), (1, 1, 1)),
        "whole": ((0, 0, 0), shape, (1, 1, 1)),
        "block": ((0, 0, 16 if channels > 16 else 0), (height, width, channels), (1, 1, 1)),
        "steps": ((0, 0, 0), shape, (2, 2, 2)),
        "last": ((height - 1, width - 1, channels - 1), shape, (1, 1, 1)),
        "first": ((0, 0, 0), shape, (MAX_SIDE, MAX_SIDE, MAX_SIDE)),
    }
    return net.slice(x, *ends[set_["part"]])  # type: ignore[arg-type]


def _depth_to_space(net: NetworkBuilder, x: str, set_: Setting, _output: TensorType) -> str:
    before = net.type_of(x)
    height, width, channels = before.shape
    block = set_["block"] if channels % set_["block"] ** 2 == 0 else 1
    after = replace(before, shape=(height * block, width * block, channels // block**2))
    return net.append(DepthToSpace(net.next_name("depth_to_space"), x, after, block=block))


def _rearrange(net: NetworkBuilder, x: str, set_: Setting, _output: TensorType) -> str:
    before = net.type_of(x)
    height, width, channels = before.shape
    groups = gcd(GROUPS, channels)
    sides, order, rows, columns = {
        "tokens": ((height, width, channels), (0, 1, 2), 2, 0),
        "heads": ((height, width, groups, channels // groups), (2, 0, 1, 3), 1, 2),
        "turned": ((height, width, channels), (2, 1, 0), 1, 1),
        "flat": ((height, width, groups, channels // groups), (3, 0, 2, 1), 0, 0),
        "one": ((1, height, width, channels), (0, 1, 2, 3), 2, 1),
    }[set_["way"]]
    layer = Rearrange(net.next_name("rearrange"), x, sides=sides, order=order, rows=rows, columns=columns)
    return net.append(replace(layer, output=replace(before, shape=layer.shape(before.shape))))


def _constant(net: NetworkBuilder, x: str, set_: Setting, output: TensorType) -> str:
    shape = net.type_of(x).shape if set_["size"] == "same" else (2, 3, 5)
    after = replace(output, shape=shape)
    values = net.rng.integers(after.lo, after.hi + 1, shape).astype(after.dtype)
    return net.append(Constant(net.next_name("constant"), x, after, values=values))


def _matmul(net: NetworkBuilder, x: str, set_: Setting, output: TensorType) -> str:
    """Scores with another tensor, or the sums over the positions of a constant, for large maps always."""
    before = net.type_of(x)
    height, width, channels = before.shape
    heads, is_transposed = gcd(set_["heads"], channels), set_["form"] == "transposed" and height * width <= 64
    if is_transposed:
        names, results = (x, _beside(net, x)), heads * height * width
    else:
        kind = replace(before, shape=(channels // heads, 1, heads * 3))
        values = net.rng.integers(kind.lo, kind.hi + 1, kind.shape).astype(kind.dtype)
        names, results = (x, net.append(Constant(net.next_name("constant"), x, kind, values=values))), heads * 3
    after = replace(output, shape=(height, width, results))
    spread = np.full(results, (before.hi - before.lo + 1) ** 2 / 12 * (channels // heads) ** 0.5)
    requantize = _requantize(net, set_["requantize"], spread, after)
    layer = MatMul(net.next_name("matmul"), names, after, heads=heads, transposed=is_transposed, requantize=requantize)
    return net.append(layer)


def _softmax(net: NetworkBuilder, x: str, set_: Setting, output: TensorType) -> str:
    after = replace(output, shape=net.type_of(x).shape)
    powers = {
        "falling": np.floor(np.exp(np.arange(256) / -20) * 2**20 + 0.5),
        "first": np.arange(256) == 0,
        "even": np.full(256, 2**20),
    }[set_["exponentials"]].astype(np.int32)
    groups = gcd(set_["groups"], after.shape[2])
    layer = Softmax(net.next_name("softmax"), x, after, groups=groups, exponentials=powers)
    return net.append(replace(layer, multiplier=set_["multiplier"]))


def _normalize(net: NetworkBuilder, x: str, set_: Setting, output: TensorType) -> str:
    before = net.type_of(x)
    channels = before.shape[2]
    factors = net.rng.integers(-128, 128, channels).astype(np.int8)
    if set_["factors"] != "any":
        factors = np.full(channels, {"lowest": -128, "zeros": 0}[set_["factors"]], np.int8)
    count = int(np.prod(before.shape)) if set_["whole"] else channels
    room = (isqrt(count) + 1 << 14) * np.abs(factors.astype(np.int64))
    bias = net.rng.integers(-(1 << 20), 1 << 20, channels)
    if set_["bias"] == "ends":
        bias = np.where(np.arange(channels) % 2, INT32_MAX - room, room - INT32_MAX)
    after = replace(output, shape=before.shape)
    requantize = _requantize(net, set_["requantize"], np.full(channels, 64.0 * 2**14), after)
    numbers = {"factors": factors, "scale": np.array([2.0**-7]), "bias": bias.astype(np.int32)}
    layer = Normalize(
        net.next_name("normalize"),
        x,
        after,
        epsilon=set_["epsilon"],
        requantize=requantize,
        whole=set_["whole"],
        **numbers,  # type: ignore[arg-type]
    )
    return net.append(layer)


def _take(net: NetworkBuilder, x: str, set_: Setting, _output: TensorType) -> str:
    before = net.type_of(x)
    rows, columns, channels = (
        {
            "any": net.rng.integers(0, side, max(1, side - 1)),
            "whole": np.arange(side),
            "mirrored": np.pad(np.arange(side), 1, mode="edge")[::-1],
            "twice": np.repeat(np.arange(side), 2),
            "last": np.array([side - 1]),
        }[set_["places"]].astype(np.int32)
        for side in before.shape
    )
    after = replace(before, shape=(len(rows), len(columns), len(channels)))
    return net.append(Take(net.next_name("take"), x, after, rows=rows, columns=columns, channels=channels))


def _bilinear(net: NetworkBuilder, x: str, set_: Setting, _output: TensorType) -> str:
    return net.bilinear(x, set_["size"] or net.type_of(x).shape[:2], set_["coordinates"])


_SUMS = {"weights": WEIGHTS, "bias": BIASES, "requantize": ROUNDINGS}

OPERATORS: tuple[Operator, ...] = (
    Operator("conv", {**_SUMS, "window": WINDOWS + DILATED}, _conv),
    Operator("conv-1x1", {**_SUMS, "window": WINDOWS[1:3]}, _conv),
    Operator("depthwise", {**_SUMS, "window": WINDOWS + DILATED}, partial(_conv, groups=None)),
    Operator("groups", {**_SUMS, "window": WINDOWS + DILATED}, partial(_conv, groups=GROUPS)),
    Operator("dense", _SUMS, _dense),
    Operator(
        "add",
        {
            "multipliers": ((3, 5), (0, 0), (1, 0), (0, 1 << 21), (1 << 21, 1 << 21)),
            "shift": (3, 0, 1, 28, 29),
            "clamp": CLAMPS,
            "order": ("first", "second"),
        },
        _add,
    ),
    Operator("clamp", {"bounds": ("inner", *CLAMPS)}, _clamp),
    Operator("affine", {"weights": AFFINE, "bias": ("some", "ends"), "requantize": ROUNDINGS}, _affine),
    Operator("rescale", {"requantize": ROUNDINGS}, _rescale),
    Operator("max-pool", {"window": WINDOWS}, _max_pool),
    Operator("average", {"requantize": ROUNDINGS, "window": WINDOWS}, _average),
    Operator("average-global", {"requantize": ROUNDINGS}, partial(_average, whole=True)),
    Operator("concat", {"parts": ("after", "before", "twice", "alone")}, _concat),
    Operator(
        "upsample",
        {"factor": ((2, 3), (1, 1), (1, 60), (60, 1))},
        lambda net, x, set_, _: net.upsample(x, set_["factor"]),
    ),
    Operator(
        "lookup",
        {"per_channel": (False, True)},
        lambda net, x, set_, output: net.lookup(x, output, set_["per_channel"]),
    ),
    Operator("product", {"other": ("map", "itself", "factors"), "requantize": ROUNDINGS}, _product),
    Operator(
        "pad",
        {"padding": ((1, 2, 0, 1), NONE, (40, 0, 0, 30)), "spacing": ((1, 1), (2, 3), (30, 1))},
        lambda net, x, set_, _: net.pad(x, set_["padding"], set_["spacing"]),
    ),
    Operator("slice", {"part": ("inner", "whole", "block", "steps", "last", "first")}, _slice),
    Operator(
        "shuffle",
        {"groups": (GROUPS, 1, CHANNELS)},
        lambda net, x, set_, _: net.shuffle(x, gcd(set_["groups"], net.type_of(x).shape[2])),
    ),
    Operator("depth-to-space", {"block": (3, 1)}, _depth_to_space),
    Operator("rearrange", {"way": ("heads", "tokens", "turned", "flat", "one")}, _rearrange),
    Operator("constant", {"size": ("same", "other")}, _constant),
    Operator(
        "matmul",
        {"form": ("transposed", "sums"), "heads": (GROUPS, 1, CHANNELS), "requantize": ROUNDINGS},
        _matmul,
    ),
    Operator(
        "softmax",
        {
            "groups": (GROUPS, 1, CHANNELS),
            "exponentials": ("falling", "first", "even"),
            "multiplier": (255 << 8, 0, 12345, 2**31 - 1),
        },
        _softmax,
    ),
    Operator(
        "normalize",
        {
            "whole": (False, True),
            "epsilon": (5, 1, 2**56),
            "factors": ("any", "lowest", "zeros"),
            "bias": ("some", "ends"),
            "requantize": ROUNDINGS,
        },
        _normalize,
    ),
    Operator("take", {"places": ("any", "whole", "mirrored", "twice", "last")}, _take),
    Operator(
        "bilinear",
        {
            "size": ((7, 6), None, (1, 1), (40, 1), (1, 40)),
            "coordinates": ("half_pixel", "align_corners", "asymmetric"),
        },
        _bilinear,
    ),
    Operator("average-inside", {"requantize": ROUNDINGS, "window": WINDOWS}, partial(_average, inside=True)),
)
