"""Weights as stored in the model file: packed to their bit width."""

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.packing import pack, sign_extend, unpack
from edgemeta.model.weights import BinaryWeights, FixedWeights, PowerOfTwoWeights, Weights


@dataclass(frozen=True, eq=False)
class _Codes:
    """`weights` are numbers of shape `shape`, `bits` bits each."""

    bits: int
    shape: tuple[int, ...]
    weights: NDArray[np.uint8]
    scale: NDArray[np.float64]

    @property
    def count(self) -> int:
        """Number of unpacked elements."""
        return math.prod(self.shape)


@dataclass(frozen=True, eq=False)
class StoredFixed(_Codes):
    """FixedWeights: the numbers are their values in two's complement."""

    def restore(self) -> FixedWeights:
        """Unpack. Raises ValueError if bits, shape and number of bytes do not agree."""
        codes = unpack(self.weights, self.count, self.bits)
        return FixedWeights(sign_extend(codes, self.bits).reshape(self.shape), self.bits, self.scale)


@dataclass(frozen=True, eq=False)
class StoredPowerOfTwo(_Codes):
    """PowerOfTwoWeights: the numbers are their codes."""

    def restore(self) -> PowerOfTwoWeights:
        """Unpack. Raises ValueError if bits, shape and number of bytes do not agree."""
        codes = unpack(self.weights, self.count, self.bits)
        return PowerOfTwoWeights(codes.reshape(self.shape), self.bits, self.scale)


@dataclass(frozen=True, eq=False)
class StoredBinary:
    """BinaryWeights: `weights` are the bases, each of shape `shape`, one after the other; bit 1 is +1, bit 0 is -1."""

    bases: int
    shape: tuple[int, ...]
    weights: NDArray[np.uint8]
    factors: NDArray[np.int16]
    scale: NDArray[np.float64]

    @property
    def count(self) -> int:
        """Number of unpacked elements."""
        return self.bases * math.prod(self.shape)

    def restore(self) -> BinaryWeights:
        """Unpack. Raises ValueError if bases, shape and number of bytes do not agree."""
        signs = unpack(self.weights, self.count, 1).astype(np.int8) * 2 - 1
        return BinaryWeights(signs.reshape(self.bases, *self.shape), self.factors, self.scale)


StoredWeights: TypeAlias = StoredFixed | StoredPowerOfTwo | StoredBinary


def store(weights: Weights) -> StoredWeights:
    """Pack proved weights."""
    match weights:
        case FixedWeights():
            return StoredFixed(weights.bits, weights.shape, pack(weights.values, weights.bits), weights.scale)
        case PowerOfTwoWeights():
            return StoredPowerOfTwo(weights.bits, weights.shape, pack(weights.codes, weights.bits), weights.scale)
        case BinaryWeights():
            packed = pack(weights.basis > 0, 1)
            return StoredBinary(len(weights.basis), weights.shape, packed, weights.factors, weights.scale)
