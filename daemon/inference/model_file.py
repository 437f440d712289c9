"""A model file that was read and found right: its bytes, its signature where one was asked for, and its model."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from edgemeta.model.address import Address
from edgemeta.model.file import parse
from edgemeta.model.graph import Model


@dataclass(frozen=True, eq=False)
class ModelFile:
    """One file as it was when it was read: the bytes that were checked are those that the model was made of.

    signature: None where no key is trusted, so that none was asked for. verify_ns: nanoseconds that the checks took.
    """

    path: Path
    content: bytes
    signature: bytes | None
    model: Model
    verify_ns: int


def read_verified(address: str, trusted: Sequence[Path]) -> ModelFile:
    """Read a model by name or path: its digest and its signature checked where they are wanted, its structure proved.

    Raises ModelError, DigestError among them, and SignatureError.
    """
    begun = time.monotonic_ns()
    file, data = Address.parse(address).read()
    signature = None
    if trusted:
        from edgemeta.model.signature import verify

        signature = verify(data, file, list(trusted))
    return ModelFile(file, data, signature, parse(data, file), time.monotonic_ns() - begun)
