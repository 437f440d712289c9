"""The bytes of a model file: a safetensors container of named tensors and text metadata.

Layout: uint64 little endian length of the header; the header, JSON, padded with spaces to a multiple of 8; the tensors'
bytes, little endian, without gaps. Tensors are ordered by decreasing element size, then by name, so that each one is
aligned and one model has one byte sequence (the safetensors library writes its metadata in random order).
"""

import json
import math
import re
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import safetensors
from numpy.typing import NDArray

from edgemeta.model.errors import ModelError
from edgemeta.model.require import require, shown

Entries: TypeAlias = list[tuple[str, Mapping[str, Any]]]
"""The name of each tensor, and its "dtype", "shape" and "data" as the safetensors library returns them."""

_DTYPES: Mapping[str, np.dtype[Any]] = {
    "U8": np.dtype("u1"),
    "I8": np.dtype("i1"),
    "I16": np.dtype("<i2"),
    "I32": np.dtype("<i4"),
    "F32": np.dtype("<f4"),
    "F64": np.dtype("<f8"),
}
_LENGTH = struct.Struct("<Q")
_deserialize: Callable[[bytes], Entries] = safetensors.deserialize
MAX_HEADER_BYTES = 1 << 24
_LONGEST_NUMBER = 40
"""Characters of a JSON number; no int64 and no double written by `repr` is longer."""


def write_container(tensors: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> bytes:
    """Bytes of a safetensors file. The tensors have any shape; dtypes are those of `_DTYPES`."""
    ordered = sorted(tensors.items(), key=lambda item: (-item[1].itemsize, item[0]))
    names = {dtype: name for name, dtype in _DTYPES.items()}
    header: dict[str, object] = {"__metadata__": dict(sorted(metadata.items()))}
    chunks, offset = [], 0
    for name, tensor in ordered:
        chunk = np.ascontiguousarray(tensor, tensor.dtype.newbyteorder("<")).tobytes()
        header[name] = {
            "dtype": names[tensor.dtype.newbyteorder("<")],
            "shape": list(tensor.shape),
            "data_offsets": [offset, offset + len(chunk)],
        }
        chunks.append(chunk)
        offset += len(chunk)
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return b"".join([_LENGTH.pack(len(text)), text, *chunks])


def read_container(data: bytes) -> tuple[Entries, dict[str, str]]:
    """Tensors, still as bytes, and metadata of a safetensors file. Raises ModelError for any other content.

    The error text then quotes none of the content: it may be of an unrelated file, and the text is sent by MQTT.
    """
    (length,) = _LENGTH.unpack(data[: _LENGTH.size].ljust(_LENGTH.size, b"\0"))
    most = f"its header would have more than {MAX_HEADER_BYTES} bytes"
    require(length <= MAX_HEADER_BYTES, f"is not a complete safetensors file ({most})")
    try:
        entries = _deserialize(data)
    except safetensors.SafetensorError as error:
        kind = re.split(r"[:`]", str(error).removeprefix("Error while deserializing: "), maxsplit=1)[0]
        raise ModelError(f"is not a complete safetensors file ({kind.strip()})") from None
    header = parse_json(data[_LENGTH.size : _LENGTH.size + length], "the header")
    metadata = header.get("__metadata__", {}) if isinstance(header, dict) else {}
    return entries, metadata


def as_imported(path: Path) -> str:
    """The end of a sentence on a file that is no model: what to do with one of another runtime; else empty."""
    return "; `edgemeta import` reads such files" if path.suffix.lower() in (".onnx", ".tflite") else ""


def read_tensors(entries: Entries) -> dict[str, NDArray[Any]]:
    """Read-only arrays of the tensors' shapes. Raises ModelError for a dtype that no model uses and for empty ones."""
    return {name: _tensor(name, entry) for name, entry in entries}


def _tensor(name: str, entry: Mapping[str, Any]) -> NDArray[Any]:
    dtype = _DTYPES.get(entry["dtype"])
    if dtype is None:
        raise ModelError(f"tensor {shown(name)} is {entry['dtype']}, expected one of {', '.join(_DTYPES)}")
    shape = tuple(entry["shape"])
    if math.prod(shape) == 0:
        raise ModelError(f"tensor {shown(name)} has shape {shown(list(shape))}, expected at least one element")
    return np.frombuffer(bytes(entry["data"]), dtype).reshape(shape)


def parse_json(text: bytes, what: str) -> Any:
    """Parse UTF-8 JSON strictly: no NaN, infinity, duplicate key or overlong number, which Python would accept.

    what: the subject of the error text. Raises ModelError.
    """

    def number(digits: str) -> float:
        if len(digits) > _LONGEST_NUMBER or not math.isfinite(float(digits)):
            raise ModelError(
                f"{what} holds the number {digits[:_LONGEST_NUMBER]}, expected a finite number of at most "
                f"{_LONGEST_NUMBER} characters"
            )
        return float(digits)

    def integer(digits: str) -> int:
        number(digits)
        return int(digits)

    def constant(name: str) -> float:
        raise ModelError(f"{what} holds {name}, expected finite numbers only")

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        keys: dict[str, Any] = {}
        for key, value in pairs:
            if key in keys:
                raise ModelError(f"{what} has the key {shown(key)} more than once")
            keys[key] = value
        return keys

    try:
        return json.loads(
            text.decode(), parse_float=number, parse_int=integer, parse_constant=constant, object_pairs_hook=unique
        )
    except RecursionError:
        raise ModelError(f"{what} is nested too deeply") from None
    except ValueError as error:
        raise ModelError(f"{what} is not JSON ({error})") from None
