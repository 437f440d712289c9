"""The checksum inside a model file: detects a failing disk or an incomplete copy.

It does not protect against manipulation: anyone who changes a file can recompute it. The metadata holds it under
"checksum": the SHA-256, in hex, of the file's bytes with the checksum itself replaced by zeros. Files of older versions
have no checksum and load without it.
"""

import hashlib
import re

from edgemeta.model.errors import ModelError
from edgemeta.model.require import require, shown

KEY = "checksum"
BLANK = "0" * 64
"""Placeholder for the checksum while it is computed."""


def with_checksum(data: bytes) -> bytes:
    """Return a file's bytes with the placeholder replaced by the checksum."""
    return data.replace(BLANK.encode(), _of(data, BLANK).encode(), 1)


def check(data: bytes, checksum: str) -> None:
    """Raise ModelError unless a file's bytes match the checksum that they contain."""
    require(
        re.fullmatch("[0-9a-f]{64}", checksum) is not None,
        f"has the checksum {shown(checksum)}, expected a SHA-256 in hex",
    )
    found = _of(data, checksum)
    if found != checksum:
        raise ModelError(f"is damaged: its bytes have the checksum {found[:12]}…, expected {checksum[:12]}…")


def _of(data: bytes, checksum: str) -> str:
    """SHA-256 of the bytes with the first occurrence of the checksum replaced by zeros."""
    begin = data.find(checksum.encode())
    end = begin + len(BLANK)
    view = memoryview(data)
    digest = hashlib.sha256(view[:begin])
    digest.update(BLANK.encode())
    digest.update(view[end:])
    return digest.hexdigest()
