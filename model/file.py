"""The model file: one safetensors file, data only, whose SHA-256 is the model's identity.

Metadata: "format" is "edgemeta", "version" the schema version, "model" the JSON object of `document`, "checksum" that
of the whole file (`checksum`). What a file says is proved before it is used (`prove`), so every model that `load` gives
can run. One model makes one sequence of bytes.
"""

import dataclasses
import hashlib
import json
import os
from pathlib import Path

from edgemeta.model import checksum
from edgemeta.model.atomic_write import write_atomically
from edgemeta.model.container import parse_json, read_container, read_tensors, write_container
from edgemeta.model.document import from_document, to_document
from edgemeta.model.errors import ModelError
from edgemeta.model.graph import Model
from edgemeta.model.prove import prove
from edgemeta.model.require import require, shown

FORMAT, VERSION = "edgemeta", 1
MAX_FILE_BYTES = 1 << 28


def encode(model: Model) -> bytes:
    """Bytes of the file; the digest is not among them. Raises ModelError if the model cannot be proved."""
    prove(model)
    document, tensors = to_document(model)
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=True)
    metadata = {checksum.KEY: checksum.BLANK, "format": FORMAT, "version": str(VERSION), "model": text}
    return checksum.sealed(write_container(tensors, metadata))


def decode(data: bytes) -> Model:
    """Model of a file's bytes, proved, its digest set. Raises ModelError, the sentence's subject being the file."""
    _require_size(len(data))
    entries, metadata = read_container(data)
    if metadata.get("format") != FORMAT:
        raise ModelError("is a safetensors file without an edgemeta model in it")
    version = metadata.get("version", "")
    if version != str(VERSION):
        is_newer = version.isascii() and version.isdigit() and int(version[:9]) > VERSION
        raise ModelError(
            f"has version {shown(version)} of the format and needs a newer edgemeta (this one reads version {VERSION})"
            if is_newer
            else f"has version {shown(version)} of the format, expected {VERSION}"
        )
    document = parse_json(metadata.get("model", "").encode(), "the model's description")
    model = from_document(document, read_tensors(entries))
    prove(model)
    if checksum.KEY in metadata:  # last, so that what is plainly wrong is told in its own words
        checksum.check(data, metadata[checksum.KEY])
    return dataclasses.replace(model, digest=hashlib.sha256(data).hexdigest())


def save(model: Model, path: str | os.PathLike[str]) -> str:
    """Write the file whole or not at all; give its digest. Raises ModelError for a model or a path that cannot be."""
    target = Path(path)
    data = encode(model)
    try:
        write_atomically(target, data)
    except OSError as error:
        raise ModelError(f"{target}: cannot be written ({error.strerror})") from None
    return hashlib.sha256(data).hexdigest()


def load(path: str | os.PathLike[str]) -> Model:
    """Read and prove a model. Raises ModelError, a sentence that begins with the path, for anything that is not one."""
    source = Path(path)
    return parse(read(source), source)


def read(source: Path) -> bytes:
    """Bytes of a model file, not looked at. Raises ModelError, a sentence that begins with the path."""
    try:
        return _read(source)
    except OSError as error:
        raise ModelError(f"{source}: cannot be read ({error.strerror})") from None
    except ModelError as error:
        raise ModelError(f"{source}: {error}") from None


def parse(data: bytes, source: Path) -> Model:
    """Do as `decode` with the bytes of a file. Raises ModelError, a sentence that begins with its path."""
    try:
        return decode(data)
    except ModelError as error:
        raise ModelError(f"{source}: {error}") from None


def _read(source: Path) -> bytes:
    """Bytes of a file; one that is too large is not read, even if it grows meanwhile."""
    if "\0" in str(source):
        raise ModelError("a path cannot hold a zero character")
    if source.exists() and not source.is_file():
        raise ModelError(f"is {'a folder' if source.is_dir() else 'a device or pipe'}, expected a model file")
    with source.open("rb") as file:
        _require_size(os.fstat(file.fileno()).st_size)
        return file.read(MAX_FILE_BYTES + 1)


def _require_size(size: int) -> None:
    limit = f"{MAX_FILE_BYTES >> 20} MiB, the most that a model file may have"
    require(size <= MAX_FILE_BYTES, f"is larger than {limit}")
