"""The type of every tensor of the integer network: ranges, scales that are powers of two, which tensors share one."""

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.graph import INPUT
from edgemeta.model.layers import Concat, Function, Homogeneous, Joining, Mean, Relu, Shape, TensorType
from edgemeta.model.weights import PowerOfTwoWeights
from edgemeta.toolchain.errors import QuantizeError
from edgemeta.toolchain.quantize.blocks import Block, Core
from edgemeta.toolchain.quantize.ranges import (
    Curve,
    Histogram,
    Range,
    RangeRule,
    Statistics,
    applied,
    choose_range,
    tensor_type,
)
from edgemeta.toolchain.quantize.sets import Sets

_SHARED = 1.25
"""An input of a concatenation that others read, too, takes its type if that is at most so much wider."""


def tensor_types(
    image: TensorType,
    shapes: Mapping[str, Shape],
    blocks: Sequence[Block],
    statistics: Statistics,
    rule: RangeRule,
    given: Mapping[str, TensorType] | None = None,
    apart: Container[str] = (),
) -> dict[str, TensorType]:
    """Type of every block's output, and of "input", which is `image`.

    Layers that only move or select elements share the type of their input. A concatenation shares its type with the
    inputs that nothing else reads, as these would be rounded twice, and with those whose own range is nearly as wide;
    the others are requantized, as is the image beside other tensors. The range of a shared type is that of the
    concatenation, or of the tensor it begins with. The range of a tensor that only one function reads is the one with
    the least error after the function. given: types that were decided before, by names of blocks (shapes are ignored);
    one counts for all tensors that share it. apart: blocks before a function whose type is not asked for; their ranges
    are not chosen by the function's error. Raises QuantizeError if two for one set of tensors differ.
    """
    sharing = sharing_of(blocks, statistics, rule, apart)
    decided = _decided(given or {}, sharing.shared)
    types = {INPUT: image}
    for block in blocks:
        root, shape = sharing.representative(block.name), shapes[block.after]
        if root == INPUT:
            types[block.name] = replace(image, shape=shape)
        elif root in decided:
            types[block.name] = replace(decided[root], shape=shape)
        else:
            types[block.name] = tensor_type(sharing.ranges[sharing.decides[root].name], shape)
    return types


@dataclass(frozen=True, eq=False)
class Sharing:
    """Which tensors have one type.

    decides: representative of a set -> the block whose range counts for it. ranges: of every block's output. functions:
    block -> the function that is the only reader of its output, where that is so.
    """

    shared: Sets[str]
    decides: Mapping[str, Block]
    ranges: Mapping[str, Range]
    functions: Mapping[str, Curve]

    def representative(self, name: str) -> str:
        """The tensor that stands for all those of one type with this one: the first of them."""
        return self.shared.of(name)


def sharing_of(blocks: Sequence[Block], statistics: Statistics, rule: RangeRule, apart: Container[str] = ()) -> Sharing:
    """The sets of tensors of one type, for the ranges that a rule gives them. apart: as of `tensor_types`."""
    functions = {name: curve for name, curve in _functions_after(blocks).items() if name not in apart}
    ranges = {
        block.name: choose_range(statistics.histograms[block.after], rule, functions.get(block.name))
        for block in blocks
    }
    shared = Sets([INPUT, *(block.name for block in blocks)])
    for block in blocks:
        if _keeps_type(block):
            shared.join(block.inputs[0], block.name)
    readers = _readers(blocks, shared)
    for block in blocks:
        if isinstance(block.core, Concat):
            is_image = [shared.of(name) == INPUT for name in block.inputs]
            for name in block.inputs if all(is_image) or not any(is_image) else ():
                is_free = readers[shared.of(name)] <= {block.name}
                if all(is_image) or is_free or _width(ranges, block.name) <= _SHARED * _width(ranges, name):
                    shared.join(name, block.name)
    decides: dict[str, Block] = {}
    for block in blocks:
        decides.setdefault(shared.of(block.name), block)
        if isinstance(block.core, Concat):
            decides[shared.of(block.name)] = block
    return Sharing(shared, decides, ranges, functions)


def _decided(given: Mapping[str, TensorType], shared: Sets[str]) -> dict[str, TensorType]:
    """Representative -> the type that was given for a tensor of its set."""
    decided: dict[str, TensorType] = {}
    for name, kind in given.items():
        plain = replace(kind, shape=(0, 0, 0))
        other = decided.setdefault(shared.of(name), plain)
        if other != plain:
            raise QuantizeError(
                f"the output of layer {name!r} is read, or shared with a tensor that is read, as {other.bits} bits "
                f"of {other.scale:g} and as {plain.bits} bits of {plain.scale:g}, expected one format"
            )
    return decided


def _keeps_type(block: Block) -> bool:
    """Whether the one input and the output share their type; of a concatenation `sharing_of` decides."""
    return isinstance(block.core, Homogeneous | Relu) and not isinstance(block.core, Joining)


def _readers(blocks: Sequence[Block], shared: Sets[str]) -> dict[str, set[str]]:
    """Representative -> blocks that read a tensor of its set and compute another type from it."""
    readers: dict[str, set[str]] = {shared.of(name): set() for name in [INPUT, *(b.name for b in blocks)]}
    for block in blocks:
        if not _keeps_type(block):
            for name in block.inputs:
                readers[shared.of(name)].add(block.name)
    return readers


def _width(ranges: Mapping[str, Range], name: str) -> float:
    least, greatest = ranges[name]
    return greatest - least


def _functions_after(blocks: Sequence[Block]) -> dict[str, Curve]:
    """Block -> the function that is the only reader of its output, where that is so."""
    readers: dict[str, list[Core]] = {}
    for block in blocks:
        for name in block.inputs:
            readers.setdefault(name, []).append(block.core)
    return {
        name: applied(cores[0]) for name, cores in readers.items() if len(cores) == 1 and isinstance(cores[0], Function)
    }


_NARROWER = 6
"""Exponents that are tried below the least one that covers all values."""


def power_types(
    image: TensorType, shapes: Mapping[str, Shape], blocks: Sequence[Block], statistics: Statistics
) -> dict[str, TensorType]:
    """As `tensor_types` with the rule "minmax", each type a `power_type`, but for "input" and what shares its type.

    Averages are signed: their table has no bias, so half of its entries are for sums below 0 in any case.
    """
    sharing, types = sharing_of(blocks, statistics, "minmax"), {INPUT: image}
    for block in blocks:
        root, shape = sharing.representative(block.name), shapes[block.after]
        if root == INPUT:
            types[block.name] = replace(image, shape=shape)
        else:
            decides = sharing.decides[root]
            signed = isinstance(decides.core, Mean)
            types[block.name] = power_type(statistics.histograms[decides.after], shape, signed=signed)
    return types


def power_type(histogram: Histogram, shape: Shape, *, signed: bool = False) -> TensorType:
    """8 bits with zero point 0 and the scale 2**e whose expected square error is least.

    uint8 for a tensor without numbers below 0, unless `signed`; else int8. The error is scale**2 / 12 for a value
    inside and the square distance for one beyond the least or greatest. At equal errors the greater scale. A tensor
    that is 0 everywhere has the scale 1.
    """
    plain = TensorType(shape, signed=signed or histogram.least < 0)
    reach = max(histogram.least / plain.lo if plain.lo else 0.0, histogram.greatest / plain.hi)
    if reach == 0:
        return plain
    centres, counts = histogram.centres, histogram.counts.astype(np.float64)
    covering = math.ceil(math.log2(reach))
    best, least_error = covering, math.inf
    for exponent in range(covering, covering - _NARROWER - 1, -1):
        step = 2.0**exponent
        beyond = np.maximum(centres - plain.hi * step, 0) + np.maximum(plain.lo * step - centres, 0)
        error = float((counts * np.where(beyond > 0, np.square(beyond), step**2 / 12)).sum())
        if error < least_error:
            best, least_error = exponent, error
    return replace(plain, scale=2.0**best)


def encoded(steps: NDArray[np.int64], bits: int, scale: float | NDArray[np.float64]) -> PowerOfTwoWeights:
    """Integers 0 or +-2**j [O, ...] as codes of `bits` bits: the sign, then j + 1 or 0. scale: of the integer 1."""
    magnitude = np.abs(steps)
    exponents = np.where(magnitude > 0, np.log2(np.maximum(magnitude, 1)) + 1, 0).astype(np.uint8)
    codes = exponents | ((steps < 0).astype(np.uint8) << bits - 1)
    return PowerOfTwoWeights(np.ascontiguousarray(codes, np.uint8), bits, np.atleast_1d(np.float64(scale)))
