"""Damaged model files: each is refused with a ModelError of one sentence, or is a model that is proved and runs."""

import json
import random
import struct
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgemeta.model.checksum import BLANK, with_checksum
from edgemeta.model.errors import ModelError
from edgemeta.model.file import decode, encode, load
from edgemeta.model.graph import Model
from edgemeta.model.preprocess import preprocess
from edgemeta.model.prove import prove
from edgemeta.model.reference import trace
from edgemeta.model.self_test import with_self_test
from edgemeta.model.zoo import find, names
from edgemeta.tasks.classification import top_k

HOSTILE: list[Any] = [
    *(0, 1, -1, 2, 3, 5, 7, 31, 32, 62, 63, 127, 128, 255, 256, 65535, 65536, 65537),
    *(2**31 - 1, 2**31, -(2**31), 2**63, 2**64, 0.0, -0.0, 0.5, 1e-320, 1e308, True, False, None),
    *("", "input", "conv", "logits", "fixed", "multiplier", "x" * 5000, [], {}, [[]], {"kind": "fixed"}),
    *([1, 1], [2, 2], [0, 0], [4, 4, 4], [1, 1, 1, 1], [2**31, 2**31]),
]
TOKENS = [b"NaN", b"-Infinity", b"1e999", b"null", b"true", b"-", b"9" * 30, b'"', b"{", b"[", b"}", b",", b"\\ud800"]
TOKENS += [b"\0", b"\n", b"\xff", b"\xe2\x80\xa8"]


def outcome(data: bytes) -> str:
    """Refused or accepted; anything else is an error of the test."""
    try:
        model = decode(data)
    except ModelError as error:
        sentence = str(error)
        assert sentence
        assert "\n" not in sentence
        assert len(sentence) < 1000
        return "refused"
    prove(model)
    kind = model.input
    batch = np.stack([np.full(kind.shape, value, kind.dtype) for value in (kind.lo, kind.hi)])
    assert preprocess(np.full((3, 5, 3), 200, np.uint8), kind, model.preprocessing).shape == kind.shape
    tensors = trace(model, batch)
    best = top_k(model, tensors[model.outputs[0]][0].ravel())
    assert best[0][0] in model.task.labels
    for layer in model.layers:
        assert tensors[layer.name].shape[1:] == layer.output.shape
        assert layer.output.lo <= tensors[layer.name].min()
        assert tensors[layer.name].max() <= layer.output.hi
    return "accepted"


def flip_bits(data: bytes, rng: random.Random) -> bytes:
    damaged = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 8])):
        damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
    return bytes(damaged)


def flip_bits_and_seal(data: bytes, rng: random.Random) -> bytes:
    """Flipped bits with a recomputed checksum, as after deliberate manipulation."""
    begin = data.index(b'"checksum":"') + len(b'"checksum":"')
    blank = data[:begin] + BLANK.encode() + data[begin + len(BLANK) :]
    return with_checksum(flip_bits(blank, rng))


def cut(data: bytes, rng: random.Random) -> bytes:
    start, end = sorted(rng.randrange(len(data) + 1) for _ in range(2))
    return rng.choice([data[:start], data[end:], data[:start] + data[end:], data[:end] + data[start:]])


def header_of(data: bytes) -> tuple[bytes, bytes]:
    (length,) = struct.unpack_from("<Q", data)
    return data[8 : 8 + length], data[8 + length :]


def edit_text(data: bytes, rng: random.Random) -> bytes:
    """Another character or token somewhere in the header, its length put right."""
    text, body = header_of(data)
    at = rng.randrange(len(text))
    token = rng.choice([*TOKENS, bytes([rng.randrange(256)]), str(rng.choice(HOSTILE)).encode()])
    text = text[:at] + token + text[at + rng.choice([0, 1, len(token)]) :]
    return struct.pack("<Q", len(text)) + text + body


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every container and key inside a JSON value."""
    if isinstance(value, dict):
        return [(value, key) for key in value] + [place for child in value.values() for place in places(child)]
    if isinstance(value, list):
        return [(value, i) for i in range(len(value))] + [place for child in value for place in places(child)]
    return []


def edit_document(data: bytes, rng: random.Random) -> bytes:
    """A hostile, removed, swapped or doubled value in the document or in the tensors' entries."""
    text, body = header_of(data)
    header = json.loads(text)
    document = json.loads(header["__metadata__"]["model"])
    header["__metadata__"].pop("checksum", None)  # else it alone would refuse them all
    tensors = {name: entry for name, entry in header.items() if name != "__metadata__"}
    for _ in range(rng.choice([1, 1, 2])):
        container, key = rng.choice(places(rng.choice([document, document, document, tensors])))
        action = rng.randrange(4)
        if action == 0:
            del container[key]
        elif action == 1 and isinstance(container[key], int):
            container[key] += rng.choice([-1, 1])
        elif action == 2:
            other, other_key = rng.choice(places(document))
            container[key] = other[other_key]
        else:
            container[key] = rng.choice(HOSTILE)
        try:
            header["__metadata__"]["model"] = json.dumps(document)
            text = json.dumps(header | tensors).encode()
        except ValueError:  # a value was put into itself
            return edit_text(data, rng)
    return struct.pack("<Q", len(text)) + text + body


MUTATIONS = (flip_bits, flip_bits_and_seal, cut, edit_text, edit_document)


def damage_many(model: Model, count: int, seed: int) -> Counter[tuple[str, str]]:
    data, rng = encode(model), random.Random(seed)
    results: Counter[tuple[str, str]] = Counter()
    for i in range(count):
        mutate = MUTATIONS[i % len(MUTATIONS)]
        results[mutate.__name__, outcome(mutate(data, rng))] += 1
    return results


def test_damaged_files(small_model: Model) -> None:
    results = damage_many(with_self_test(small_model), 2_000, seed=1)
    assert results["flip_bits", "accepted"] <= 5  # in the checksum's own name: then there is none, all else is whole
    assert results["flip_bits_and_seal", "accepted"] > 50
    assert results["edit_document", "accepted"] > 5
    assert results["edit_document", "refused"] > 300


@pytest.mark.slow
@pytest.mark.fuzz
@pytest.mark.timeout(3000)
def test_many_damaged_files(small_model: Model, fed: Callable[[str, int], None]) -> None:
    results = damage_many(with_self_test(small_model), 120_000, seed=2)
    for (mutation, result), count in sorted(results.items()):
        print(f"{mutation:14} {result:9} {count:7}")
    assert sum(results.values()) == 120_000
    fed("model files", 120_000)


@pytest.mark.slow
@pytest.mark.fuzz
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("name", names())
def test_damaged_shipped_models(name: str, fed: Callable[[str, int], None]) -> None:
    results = damage_many(load(find(name)), 2_000, seed=3)
    fed("model files", 2_000)
    assert results["flip_bits", "accepted"] == 0
    assert results["flip_bits_and_seal", "accepted"] > 50


@settings(max_examples=200)
@given(st.binary(max_size=400))
def test_any_bytes(data: bytes) -> None:
    assert outcome(data) == "refused"


leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
documents = st.recursive(leaves, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))


@settings(max_examples=100)
@given(documents)
def test_any_document(document: Any) -> None:
    metadata = {"format": "edgemeta", "version": "1", "model": json.dumps(document)}
    text = json.dumps({"__metadata__": metadata}).encode()
    assert outcome(struct.pack("<Q", len(text)) + text) == "refused"
