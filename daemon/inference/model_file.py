"""A verified model file: its bytes, its signature where one is required, and the model parsed from the bytes."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from edgemeta.model.address import Address
from edgemeta.model.file import parse
from edgemeta.model.graph import Model


@dataclass(frozen=True, eq=False)
class ModelFile:
    """One file as it was read once: the bytes that were verified are those that were parsed.

    signature: None where the config trusts no key and so requires none. verify_ns: nanoseconds that the checks took.
    """

    path: Path
    content: bytes
    signature: bytes | None
    model: Model
    verify_ns: int


def read_verified(address: str, trusted: Sequence[Path]) -> ModelFile:
    """Read a model by name or path; check its digest and signature where required, and prove its structure.

    Raises ModelError, DigestError among them, and SignatureError.
    """
    started = time.monotonic_ns()
    file, data = Address.parse(address).read()
    signature = None
    if trusted:
        from edgemeta.model.signature import verify

        signature = verify(data, file, list(trusted))
    return ModelFile(file, data, signature, parse(data, file), time.monotonic_ns() - started)
