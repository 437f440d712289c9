"""The checksum inside a model file: it notices a bad disk or a bad copy.

It is no security: who changes a file can make it anew.
It stands in the metadata under "checksum": the SHA-256, in hex, of the file's bytes with zeros in its own place. Files
from before there was one have none, and load without it.
"""

import hashlib
import re

from edgemeta.model.errors import ModelError
from edgemeta.model.require import require, shown

KEY = "checksum"
BLANK = "0" * 64
"""What stands in the checksum's place while it is taken."""


def sealed(data: bytes) -> bytes:
    """Return a file's bytes with the checksum in the place that was left blank."""
    return data.replace(BLANK.encode(), _of(data, BLANK).encode(), 1)


def check(data: bytes, checksum: str) -> None:
    """Raise ModelError unless a file's bytes have the checksum that stands in them."""
    require(
        re.fullmatch("[0-9a-f]{64}", checksum) is not None,
        f"has the checksum {shown(checksum)}, expected a SHA-256 in hex",
    )
    found = _of(data, checksum)
    if found != checksum:
        raise ModelError(f"is damaged: its bytes have the checksum {found[:12]}…, expected {checksum[:12]}…")


def _of(data: bytes, checksum: str) -> str:
    """SHA-256 of the bytes with zeros where the checksum first stands."""
    begin = data.find(checksum.encode())
    end = begin + len(BLANK)
    view = memoryview(data)
    digest = hashlib.sha256(view[:begin])
    digest.update(BLANK.encode())
    digest.update(view[end:])
    return digest.hexdigest()
