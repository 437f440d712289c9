"""Packing against bit strings written in Python."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemeta.model.packing import pack, packed_size, sign_extend, unpack

bits_and_codes = st.integers(1, 8).flatmap(
    lambda bits: st.tuples(st.just(bits), st.lists(st.integers(0, 2**bits - 1), min_size=1, max_size=70))
)


def plain_pack(codes: list[int], bits: int) -> bytes:
    stream = sum(code << (i * bits) for i, code in enumerate(codes))
    return stream.to_bytes(-(-len(codes) * bits // 8), "little")


@given(bits_and_codes)
def test_bytes_are_the_little_endian_bit_stream(drawn: tuple[int, list[int]]) -> None:
    bits, codes = drawn
    packed = pack(np.array(codes), bits)
    assert packed.tobytes() == plain_pack(codes, bits)
    assert len(packed) == packed_size(len(codes), bits)
    assert unpack(packed, len(codes), bits).tolist() == codes


@given(st.integers(1, 8), st.integers(0, 2**32 - 1))
def test_signed_values_round_trip(bits: int, seed: int) -> None:
    values = np.random.default_rng(seed).integers(-(2 ** (bits - 1)), 2 ** (bits - 1), (3, 5)).astype(np.int8)
    restored = sign_extend(unpack(pack(values, bits), values.size, bits), bits)
    np.testing.assert_array_equal(restored.reshape(3, 5), values)
    assert restored.dtype == np.int8


def test_order_of_bits_by_hand() -> None:
    assert pack(np.array([1, 2, 3]), 3).tolist() == [0b11_010_001, 0b0]
    assert pack(np.array([-1, 0, -1]), 1).tolist() == [0b101]


@pytest.mark.parametrize(
    ("packed", "count", "bits", "sentence"),
    [
        ([0, 0], 3, 4, "take 2 bytes, found 3"),
        ([0], 1, 9, "9 bits, expected 1 .. 8"),
        ([0], 1, 0, "0 bits, expected 1 .. 8"),
        ([8], 3, 1, "unused bits"),
    ],
)
def test_invalid_packings_are_refused(packed: list[int], count: int, bits: int, sentence: str) -> None:
    data = np.array([*packed, 0] if "found 3" in sentence else packed, np.uint8)
    with pytest.raises(ValueError, match=sentence):
        unpack(data, count, bits)
