"""The model file: one safetensors file, data only, identified by its SHA-256.

Metadata: "format" is "edgemeta", "version" the schema version, "model" the JSON object of `document`, "checksum" that
of the whole file (`checksum`). The content is proved (`prove`) before it is used, so every model that `load` returns
can run and no one needs to prove it again. One model has one byte sequence.
"""

import dataclasses
import hashlib
import json
import os
from pathlib import Path

from edgemeta.model import checksum
from edgemeta.model.atomic_write import write_atomically
from edgemeta.model.container import as_imported, parse_json, read_container, read_tensors, write_container
from edgemeta.model.document import from_document, to_document
from edgemeta.model.errors import ModelError
from edgemeta.model.graph import Model
from edgemeta.model.prove import prove
from edgemeta.model.require import require, shown
from edgemeta.model.small_file import FileError, read_small_file, shortened

FORMAT, VERSION = "edgemeta", 1
MAX_FILE_BYTES = 1 << 28


def encode(model: Model) -> bytes:
    """Bytes of the file, without the digest. Raises ModelError if the model cannot be proved."""
    prove(model)
    document, tensors = to_document(model)
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=True)
    metadata = {checksum.KEY: checksum.BLANK, "format": FORMAT, "version": str(VERSION), "model": text}
    return checksum.with_checksum(write_container(tensors, metadata))


def decode(data: bytes) -> Model:
    """The proved model in a file's bytes, with its digest. Raises ModelError; the subject of the text is the file."""
    _require_size(len(data))
    entries, metadata = read_container(data)
    if '"edgemeta-float"' in metadata.get("edgemeta", ""):
        raise ModelError("is a float model: make an integer model of it with `edgemeta quantize`")
    if metadata.get("format") != FORMAT:
        raise ModelError("is a safetensors file that contains no edgemeta model")
    version = metadata.get("version", "")
    if version != str(VERSION):
        is_newer = version.isascii() and version.isdigit() and int(version[:9]) > VERSION
        raise ModelError(
            f"has format version {shown(version)} and needs a newer edgemeta (this one reads version {VERSION})"
            if is_newer
            else f"has format version {shown(version)}, expected {VERSION}"
        )
    document = parse_json(metadata.get("model", "").encode(), "the model's description")
    model = from_document(document, read_tensors(entries))
    prove(model)
    if checksum.KEY in metadata:  # last, so that a more specific error is reported first
        checksum.check(data, metadata[checksum.KEY])
    return dataclasses.replace(model, digest=hashlib.sha256(data).hexdigest())


def save(model: Model, path: str | os.PathLike[str]) -> str:
    """Write the file atomically and return its digest. Raises ModelError for an invalid model or an unwritable path."""
    target = Path(path)
    data = encode(model)
    try:
        write_atomically(target, data)
    except OSError as error:
        raise ModelError(f"{target}: cannot be written ({error.strerror})") from None
    return hashlib.sha256(data).hexdigest()


def load(path: str | os.PathLike[str]) -> Model:
    """Read and prove a model. Raises ModelError, whose text begins with the path, if the file is not a valid model."""
    source = Path(path)
    return parse(read(source), source)


def read(source: Path) -> bytes:
    """Bytes of a model file, unchecked. Raises ModelError, whose text begins with the path."""
    try:
        return read_small_file(source, MAX_FILE_BYTES)
    except FileError as error:
        raise ModelError(f"{shortened(str(source))}: {error.reason}") from None


def parse(data: bytes, source: Path) -> Model:
    """As `decode`, for the bytes of the file `source`. Raises ModelError, whose text begins with the path."""
    try:
        return decode(data)
    except ModelError as error:
        raise ModelError(f"{source}: {error}{as_imported(source)}") from None


def _require_size(size: int) -> None:
    limit = f"{MAX_FILE_BYTES >> 20} MiB, the limit of a model file"
    require(size <= MAX_FILE_BYTES, f"is larger than {limit}")
