"""Large weights of an ONNX file, left in the file: read where they are needed, and only then.

A file of half a gigabyte would be held several times over by the libraries that parse and simplify it. So its records
are walked here, and the bytes of large tensors are cut out of what these libraries get. What is damaged is not cut.
"""

import mmap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from edgemeta.toolchain.importer.network import Array

LEAST_FILE, LEAST_TENSOR = 1 << 26, 1 << 20
"""Bytes from which on a file's weights are left in it, and from which on a tensor is."""
MOST_MADE = 1 << 28
"""Elements of all constants that a file makes of one number."""
_GRAPH, _INITIALIZER, _NAME, _RAW = 7, 5, 8, 9
"""Numbers of the fields of ModelProto, GraphProto and TensorProto."""
_BYTES = 2
"""The wire type of fields with a length."""
_READERS = ("Conv", "ConvTranspose", "Gemm", "MatMul")


@dataclass(frozen=True, eq=False)
class Skeleton:
    """A file without the bytes of its large tensors. places: where these are, start and end, by the tensor's name."""

    data: bytes
    places: Mapping[str, tuple[int, int]]


def skeleton_of(path: Path) -> Skeleton | None:
    """A large file without its large tensors; None for a small one, or one that is not what it should be."""
    if path.stat().st_size < LEAST_FILE:
        return None
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        places: dict[str, tuple[int, int]] = {}
        try:
            parts = [
                _encoded(_GRAPH, _graph(data, start, end, places)) if number == _GRAPH else data[begin:end]
                for number, begin, start, end in _fields(data, 0, len(data))
            ]
        except (IndexError, ValueError):
            return None
    return Skeleton(b"".join(parts), places)


def _graph(data: mmap.mmap, start: int, end: int, places: dict[str, tuple[int, int]]) -> bytes:
    parts = []
    for number, begin, first, last in _fields(data, start, end):
        if number != _INITIALIZER or last - first < LEAST_TENSOR:
            parts.append(data[begin:last])
            continue
        inside = list(_fields(data, first, last))
        name = next((data[a:b].decode() for n, _, a, b in inside if n == _NAME), "")
        raw = [(a, b) for n, _, a, b in inside if n == _RAW and b - a >= LEAST_TENSOR]
        if name in places:
            raise ValueError("two tensors of one name")
        if len(raw) == 1 and name:
            places[name] = raw[0]
            parts.append(_encoded(_INITIALIZER, b"".join(data[c:b] for n, c, _, b in inside if n != _RAW)))
        else:
            parts.append(data[begin:last])
    return b"".join(parts)


def _fields(data: mmap.mmap, start: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Number, first byte, and the range of the content of each field. Raises IndexError, ValueError."""
    place = start
    while place < end:
        begin = place
        tag, place = _number(data, place)
        wire = tag & 7
        if wire == _BYTES:
            length, place = _number(data, place)
        elif wire in (1, 5):
            length = 8 if wire == 1 else 4
        elif wire == 0:
            _, after = _number(data, place)
            length = after - place
        else:
            raise ValueError("a wire type that is not used")
        if place + length > end:
            raise ValueError("a field that is longer than its record")
        yield tag >> 3, begin, place, place + length
        place += length


def _number(data: mmap.mmap, place: int) -> tuple[int, int]:
    """A number in 7 bits of each byte, the lowest first, and where it ends."""
    value = shift = 0
    while True:
        byte = data[place]
        value, shift, place = value | (byte & 0x7F) << shift, shift + 7, place + 1
        if byte < 0x80:
            return value, place
        if shift > 63:
            raise ValueError("a number of more than 64 bits")


def _encoded(number: int, content: bytes) -> bytes:
    """A field with a length."""
    length, prefix = len(content), bytearray([number << 3 | _BYTES])
    while length >= 0x80:
        prefix.append(length & 0x7F | 0x80)
        length >>= 7
    return bytes([*prefix, length]) + content


def take_weights(proto: Any, path: Path, places: Mapping[str, tuple[int, int]]) -> dict[str, Array]:
    """Make inputs of the large constants that only layers with weights read; give all others of `places` their bytes.

    Returns these constants [...], by name: views of the file. So are large constants of one number (ConstantOfShape),
    which need no memory here.
    """
    import onnx

    weights: dict[str, Array] = {}
    graph = proto.graph
    readers: dict[str, list[tuple[Any, int]]] = {}
    for node in graph.node:
        for number, name in enumerate(node.input):
            readers.setdefault(name, []).append((node, number))
    kept = {each.name for each in graph.output}
    if any(each.HasField("g") for node in graph.node for each in node.attribute):
        kept.update(places)

    def is_weight(name: str) -> bool:
        """Whether only layers with weights have it as theirs, none of them with a batch norm to be folded behind it."""
        return name not in kept and all(
            number == 1
            and node.op_type in _READERS
            and all(after.op_type != "BatchNormalization" for made in node.output for after, _ in readers.get(made, []))
            for node, number in readers.get(name, [])
        )

    inputs = {each.name for each in graph.input}
    stored = {each.name: each for each in graph.initializer}
    for name, (start, end) in places.items():
        tensor = stored[name]
        if is_weight(name) and tensor.data_type == onnx.TensorProto.FLOAT and 4 * prod(tensor.dims) == end - start:
            shape = tuple(tensor.dims)
            weights[name] = np.memmap(path, "<f4", "r", start, shape)
        else:
            with path.open("rb") as file:
                file.seek(start)
                tensor.raw_data = file.read(end - start)
    room = MOST_MADE
    for node in list(graph.node):
        shape_of = stored.get(node.input[0]) if node.op_type == "ConstantOfShape" and node.input else None
        if shape_of is None or len(node.output) != 1 or not is_weight(node.output[0]):
            continue
        sides = tuple(onnx.numpy_helper.to_array(shape_of).tolist())
        value = next((onnx.numpy_helper.to_array(each.t) for each in node.attribute), np.zeros(1, np.float32))
        room -= max(0, prod(sides))
        if min(sides, default=0) > 0 and 4 * prod(sides) >= LEAST_TENSOR and room >= 0 and value.dtype == np.float32:
            weights[node.output[0]] = np.broadcast_to(value.reshape(()), sides)
            graph.node.remove(node)
    left = [each for each in graph.initializer if each.name not in weights]
    del graph.initializer[:]
    graph.initializer.extend(left)
    for name, array in weights.items():
        if name not in inputs:
            graph.input.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, array.shape))
    return weights
