"""Cases whose requantizations have exact ties, and values next to them, inside every clamp.

A row is one output channel: acc = sum of +-weight * (x - zx) over some taps, plus bias, and y = zy + round(acc *
multiplier, shift). A tie is acc * multiplier = 2**(shift-1) modulo 2**shift; one less there is a near tie, which a half
that is one too great rounds up. `test_ties.py` proves that wrong roundings, clamps and products are told apart.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.graph import INPUT
from edgemeta.model.layers import AveragePool, Conv, Dense, Multiplier, Rescale, ShiftTable, TensorType
from edgemeta.model.weights import BinaryWeights, FixedWeights, Weights
from tests.conformance.networks import Case, NetworkBuilder

IMAGE = TensorType((16, 16, 3), zero_point=-3)
OUTPUT = TensorType((1, 1, 1), zero_point=-1)
LO, HI = -100, 101
SAME = (1, 1, 1, 1)
MANY = 60
"""Number of images for layers with one output pixel per image."""


@dataclass(frozen=True)
class Row:
    """taps: how many inputs have the weight, half of them negative; None for all of them."""

    multiplier: int
    shift: int
    weight: int = 1
    bias: int = 0
    taps: int | None = 1


def near_tie(shift: int, first: int, weight: int = 1, bias: int = 0) -> Row:
    """An odd multiplier from 2**30 on, for which some odd accumulator from `first` on is a near tie."""
    for accumulator in range(first | 1, first + 1000, 2):
        multiplier = pow(accumulator, -1, 1 << shift) * ((1 << shift - 1) - 1) % (1 << shift)
        if 1 << 30 <= multiplier < 1 << 31:
            return Row(multiplier, shift, weight, bias)
    raise AssertionError(f"no multiplier of shift {shift}")


GENTLE = (
    *(Row(1, shift, 1 << max(shift - 2, 0), shift) for shift in range(1, 8)),
    Row(1, 1, 3, 2),
    Row(3, 4, -1, 7),
    Row(1 << 30, 31),
    Row(1 << 30, 34, 8, 8),
    Row(7 << 28, 34, 8),
    Row(31 << 26, 34, -32),
    Row((1 << 31) - (1 << 24), 38, 64, 8192),
    near_tie(32, 11),
    near_tie(32, -15),
)
"""At most 1/2: a float line on every backend that has lines."""
HALF_AND_MORE = (
    *GENTLE,
    Row(3, 2, 1, 1),
    Row(3 << 29, 31),
    Row(13 << 27, 31, -1, 2),
    near_tie(31, 21),
    near_tie(31, -35),
    Row(1, 0),
    Row(0, 5),
)
STEEP = (*GENTLE, Row(3, 1), Row(3 << 29, 30), Row(5 << 28, 29, -1), Row(9, 3), Row(3, 0), near_tie(31, 5))
"""More than 1, where a product leaves int32 before it is clamped."""
ENDS = (
    Row(1 << 30, 61, 1, 1 << 30),
    Row(1 << 30, 61, -1, -(1 << 30)),
    Row(1 << 30, 62, 1, -(1 << 31) + 125),
    Row((1 << 31) - 1, 62, -1, (1 << 31) - 200),
    Row(1, 31, 1, 1 << 30),
    Row(1, 31, -1, -(1 << 30)),
    Row(1, 0),
    Row(1, 1),
)
"""The ends of the ranges of shift and accumulator."""
FAR = (
    Row(1, 18, 1 << 14, 0, None),
    Row(1 << 30, 48, 1 << 14, 3, None),
    Row(3 << 29, 48, 1 << 14, 1 << 17, None),
    Row(3, 20, 1 << 14, 1 << 25, None),
    Row(1, 18, 1 << 14, -(1 << 24) - 1, None),
    Row((1 << 31) - (1 << 28), 50, 1 << 14, 0, None),
    *(replace(row, weight=2 * row.weight, shift=row.shift + 1) for row in GENTLE[:12] if row.shift < 34),
    Row(1 << 30, 61, 2, 1 << 30),
    Row(1 << 30, 61, -2, -(1 << 30)),
    Row(3, 2, 2, 2),
    *(near_tie(32, first, 2, first) for first in (5, -23, 41, -77)),
    *(near_tie(31, first, 2, first) for first in (7, -31)),
)
"""Steps beyond 2**24, where float32 no longer holds every accumulator: no channel of such a layer has a line."""
FINE = tuple(
    Row(multiplier, shift, 1 << 14, bias, None)
    for multiplier, shift, bias in ((1, 17, 0), (1 << 30, 47, 1 << 16), (3 << 29, 47, 0), (1, 17, -1))
)
"""Steps closer to each other's ties than a slope of 24 bits can tell, within 2**24."""
CONVERTED = tuple(
    Row(multiplier, shift, 1 << 12, bias, None)
    for multiplier, shift, bias in ((1, 16, 0), (1 << 30, 46, 1 << 15), (1, 15, -1), (1 << 30, 45, -(1 << 14)))
)
"""Steps beyond 2**22, where an accumulator no longer fits beside the bits of 1.5 * 2**23."""
ROWS = {
    "gentle": GENTLE,
    "half-and-more": HALF_AND_MORE,
    "steep": STEEP,
    "ends": ENDS,
    "far": FAR,
    "fine": FINE,
    "converted": CONVERTED,
}


def ties() -> Iterator[Case]:
    """Every set of rows in a convolution and in a dense layer; then the other layers that round."""
    for name, rows in ROWS.items():
        kernel = 3 if any(row.taps is None for row in rows) else 1
        net = NetworkBuilder(f"ties-conv-{name}", IMAGE)
        weights, bias = _weights(net, rows, (kernel, kernel, 3))
        side = 17 - kernel
        output = replace(OUTPUT, shape=(side, side, len(rows)))
        net.append(Conv("conv", INPUT, output, weights=weights, bias=bias, requantize=_multiplier(rows)))
        yield net.observe("conv")
        net = NetworkBuilder(f"ties-dense-{name}", replace(IMAGE, shape=(3, 3, 3)))
        weights, bias = _weights(net, rows, (27,))
        output = replace(OUTPUT, shape=(1, 1, len(rows)))
        net.append(Dense("dense", INPUT, output, weights=weights, bias=bias, requantize=_multiplier(rows)))
        yield replace(net.observe("dense"), images=MANY)
    yield _deep()
    yield from _tables()
    yield from _without_weights()
    yield from _additions()


def _weights(net: NetworkBuilder, rows: Sequence[Row], shape: tuple[int, ...]) -> tuple[Weights, NDArray[np.int32]]:
    """Weights [rows, *shape] and biases; weights beyond 8 bits are two bases that agree, or cancel for a 0."""
    count = int(np.prod(shape))
    signs = np.zeros((len(rows), count), np.int64)
    for o, row in enumerate(rows):
        taps = net.rng.permutation(count)[: row.taps]
        signs[o, taps] = np.where(np.arange(len(taps)) % 2, -1, 1)
    signs = signs.reshape(-1, *shape)
    biases = np.array([row.bias for row in rows], np.int32)
    sizes = np.array([row.weight for row in rows])
    if np.abs(sizes).max() < 128:
        values = signs * sizes.reshape(-1, *(1 for _ in shape))
        return FixedWeights(values.astype(np.int8), 8, np.array([1.0])), biases
    assert not (sizes % 2).any()
    basis = np.stack([np.where(signs, signs, 1), np.where(signs, signs, -1)]).astype(np.int8)
    factors = np.stack([sizes // 2, sizes // 2], axis=1).astype(np.int16)
    return BinaryWeights(basis, factors, np.array([1.0])), biases


def _multiplier(rows: Sequence[Row]) -> Multiplier:
    multipliers = np.array([row.multiplier for row in rows], np.int32)
    return Multiplier(multipliers, np.array([row.shift for row in rows], np.uint8), LO, HI)


def _deep() -> Case:
    """Ties after 3x3 convolutions of 16 channels, for Winograd and matrix instructions."""
    net = NetworkBuilder("ties-deep", TensorType((9, 9, 16), zero_point=4))
    rows = [Row(1, 5, 1, 0, 9), Row(3, 6, -1, 5, 7), Row(1 << 30, 34, 1, -3, 8), Row(3 << 29, 35, 2, 2, 9)] * 4
    weights, bias = _weights(net, rows, (3, 3, 16))
    output = replace(OUTPUT, shape=(9, 9, 16))
    net.append(Conv("conv", net.start, output, weights=weights, bias=bias, padding=SAME, requantize=_multiplier(rows)))
    return net.observe("conv")


def _tables() -> Iterator[Case]:
    """Ties of the table's index: tables that are lines, and such that neighbouring entries differ by anything."""
    index = np.arange(-128, 128)
    slopes = (128, 100, -100, 90, 120, -77, 64)
    lines = np.stack([np.clip((index * slope + 64) // 128, LO, HI) for slope in slopes])
    rows = (*(Row(1, shift, 1 << max(shift - 2, 0), 1) for shift in (0, 1, 2, 5, 7)), Row(1, 8, 64, -64), Row(1, 0, 2))
    for name, tabled in (("line", rows), ("any", (*rows, *(row for row in ENDS if row.multiplier == 1)))):
        for is_dense in (False, True):
            shape = (3, 3, 3) if is_dense else IMAGE.shape
            net = NetworkBuilder(f"ties-table-{name}-{'dense' if is_dense else 'conv'}", replace(IMAGE, shape=shape))
            any_table = net.rng.permuted(np.tile(index, (len(tabled), 1)), axis=1)
            shifts = np.array([row.shift for row in tabled], np.uint8)
            requantize = ShiftTable(shifts, (lines if name == "line" else any_table).astype(np.int8))
            weights, bias = _weights(net, tabled, (27,) if is_dense else (1, 1, 3))
            output = replace(OUTPUT, shape=(*((1, 1) if is_dense else shape[:2]), len(tabled)))
            if is_dense:
                net.append(Dense("layer", INPUT, output, weights=weights, bias=bias, requantize=requantize))
            else:
                net.append(Conv("layer", INPUT, output, weights=weights, bias=bias, requantize=requantize))
            yield replace(net.observe("layer"), images=MANY if is_dense else 3)


def _without_weights() -> Iterator[Case]:
    """Rescales and average pools."""
    forms = {"half": (1, 1), "large": (1 << 30, 32), "three-quarters": (3 << 29, 31), "steep": (3 << 29, 30)}
    for name, (multiplier, shift) in forms.items():
        net = NetworkBuilder(f"ties-rescale-{name}", IMAGE)
        net.append(Rescale("rescale", INPUT, replace(OUTPUT, shape=IMAGE.shape), _multiplier([Row(multiplier, shift)])))
        yield net.observe("rescale")
    for name, side, multiplier, shift in (
        ("2x2", 2, 1, 2),
        ("4x4", 4, 1 << 30, 34),
        ("global", 6, 1, 2),
        ("global-large", 6, 3 << 29, 33),
    ):
        shape = (side, side, 3) if name.startswith("global") else IMAGE.shape
        source = replace(IMAGE, shape=shape)
        net = NetworkBuilder(f"ties-average-{name}", source)
        output = replace(source, shape=(shape[0] // side, shape[1] // side, 3))
        requantize = _multiplier([Row(multiplier, shift)])
        net.append(
            AveragePool("average", INPUT, output, kernel=(side, side), stride=(side, side), requantize=requantize)
        )
        yield replace(net.observe("average"), images=MANY if name.startswith("global") else 3)


def _additions() -> Iterator[Case]:
    """Ties of residual additions, whose multipliers have 21 bits and more than 15."""
    for name, multipliers, shift in (
        ("half", (1, 1), 1),
        ("three-quarters", (3, 3), 2),
        ("greatest", (1 << 21, 1 << 21), 22),
        ("both", (3 << 19, 1 << 20), 22),
        ("last-shift", (1 << 21, 1 << 21), 29),
        ("eighths", (5 << 13, 3 << 13), 16),
    ):
        net = NetworkBuilder(f"ties-add-{name}", replace(IMAGE, shape=(8, 8, 3)))
        branch = net.clamp(INPUT, -70, 70)
        yield net.observe(net.add(branch, INPUT, multipliers=multipliers, shift=shift, zero_point=-5))
        net = NetworkBuilder(f"ties-residual-{name}", replace(IMAGE, shape=(8, 8, 3)))
        branch = net.conv(INPUT, 3, (1, 1), padding=(0, 0, 0, 0), output=OUTPUT)
        yield net.observe(net.add(branch, INPUT, multipliers=multipliers, shift=shift, zero_point=-5))
