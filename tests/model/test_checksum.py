"""The checksum in a model file: every flipped bit is detected, older files load, and its definition is fixed."""

import hashlib
import random
import re

import pytest

from edgemeta.model.checksum import BLANK
from edgemeta.model.errors import ModelError
from edgemeta.model.file import decode, encode
from edgemeta.model.graph import Model
from tests.model.test_file import join, split, without_checksum


def test_the_checksum_is_the_sha256_of_the_file_with_zeros_in_its_place(small_model: Model) -> None:
    data = encode(small_model)
    reported = split(data)[0]["__metadata__"]["checksum"]
    assert hashlib.sha256(data.replace(reported.encode(), BLANK.encode(), 1)).hexdigest() == reported


def test_a_flipped_bit_in_any_tensor_is_detected(small_model: Model) -> None:
    whole = encode(small_model)
    body = len(split(whole)[1])
    assert body > 100
    for place in range(len(whole) - body, len(whole), 7):  # each: reliability/flipped_bits.py
        data = bytearray(whole)
        data[place] ^= 1 << random.Random(place).randrange(8)
        with pytest.raises(ModelError):
            decode(bytes(data))


def test_the_error_has_both_checksums(small_model: Model) -> None:
    data = bytearray(encode(small_model))
    data[-1] ^= 1
    with pytest.raises(
        ModelError, match=r"is damaged: its bytes have the checksum [0-9a-f]{12}…, expected [0-9a-f]{12}…"
    ):
        decode(bytes(data))


def test_a_file_without_a_checksum_loads(small_model: Model) -> None:
    older = without_checksum(encode(small_model))
    assert decode(older).layers[0].name == small_model.layers[0].name


@pytest.mark.parametrize("text", ["", "0", "x" * 64, "A" * 64, "é" * 64])
def test_an_invalid_checksum_is_an_error(small_model: Model, text: str) -> None:
    header, body = split(encode(small_model))
    header["__metadata__"]["checksum"] = text
    with pytest.raises(ModelError, match=re.escape("expected a SHA-256 in hex")):
        decode(join(header, body))
