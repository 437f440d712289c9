"""Dense packing of k-bit integers into bytes.

Value i takes bits i*k .. i*k + k-1 of the stream, its lowest bit first; bit s of the stream is bit s % 8 of byte
s // 8, counted from the lowest. The unused bits of the last byte are 0, so that equal values give equal bytes.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def packed_size(count: int, bits: int) -> int:
    """Number of bytes for `count` values of `bits` bits."""
    return -(-count * bits // 8)


def pack(values: NDArray[Any], bits: int) -> NDArray[np.uint8]:
    """Lowest `bits` = 1 .. 8 bits of integers of any shape, in C order, as uint8 [packed_size]; two's complement."""
    codes = values.astype(np.uint8).reshape(-1, 1)
    if bits == 8:
        return codes.reshape(-1)
    return np.packbits(np.unpackbits(codes, axis=1, count=bits, bitorder="little"), bitorder="little")


def unpack(packed: NDArray[np.uint8], count: int, bits: int) -> NDArray[np.uint8]:
    """Inverse of `pack`: uint8 [count], 0 .. 2**bits - 1. Raises ValueError on wrong bits, size or unused bits."""
    if not 1 <= bits <= 8:
        raise ValueError(f"values have {bits} bits, expected 1 .. 8")
    if packed.shape != (packed_size(count, bits),):
        raise ValueError(f"{count} values of {bits} bits take {packed_size(count, bits)} bytes, found {packed.size}")
    if bits == 8:
        return packed
    stream = np.unpackbits(packed, bitorder="little")
    if stream[count * bits :].any():
        raise ValueError("unused bits of the last byte are set")
    digits = stream[: count * bits].reshape(count, bits)
    return np.packbits(digits, axis=1, bitorder="little").reshape(count)


def sign_extend(codes: NDArray[np.uint8], bits: int) -> NDArray[np.int8]:
    """Read codes [...] of `bits` bits as two's complement, int8."""
    sign = np.uint8(1 << (bits - 1))
    return ((codes ^ sign) - sign).view(np.int8)
