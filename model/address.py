"""Addresses of models in configs, commands and on the command line: a shipped name or a path, optionally with a digest.

`NAME@sha256:HEX` and `PATH@sha256:HEX` accept only a file with that digest. The digests of shipped files are listed in
`zoo/SHA256SUMS`, so a damaged installation is detected without a digest in the address. A digest is always checked on
the same bytes that are then parsed.
"""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from edgemeta.model.errors import ModelError
from edgemeta.model.file import read
from edgemeta.model.zoo import find, shipped_digest

MARK = "@sha256:"


class DigestError(ModelError):
    """A model file with another digest than expected; `found` and `expected` are parts of the error text."""

    def __init__(self, found: str, expected: str) -> None:
        super().__init__(f"{found}, expected {expected}")
        self.found = found
        self.expected = expected


@dataclass(frozen=True)
class Address:
    """A shipped model's name or a model file's path, and the required SHA-256 in hex, or None.

    place: the name or path.
    """

    place: str
    sha256: str | None = None

    @staticmethod
    def parse(text: str) -> "Address":
        """Parse an address. Raises DigestError if the part after `@sha256:` is not a SHA-256."""
        place, mark, digest = text.rpartition(MARK)
        if not mark:
            return Address(text)
        if not place or not re.fullmatch("[0-9A-Fa-f]{64}", digest):
            raise DigestError(text[:200], f"a name or path, `{MARK}` and 64 hexadecimal digits")
        return Address(place, digest.lower())

    def __str__(self) -> str:
        return self.place if self.sha256 is None else f"{self.place}{MARK}{self.sha256}"

    def read(self) -> tuple[Path, bytes]:
        """Return the file and its bytes. Raises ModelError; DigestError if the digest does not match."""
        file = find(self.place)
        data = read(file)
        found = hashlib.sha256(data).hexdigest()
        shipped = shipped_digest(file)
        if shipped is not None and found != shipped:
            raise DigestError(f"{file}: damaged, its sha256 is {found}", f"{shipped}, as shipped (reinstall edgemeta)")
        if self.sha256 is not None and found != self.sha256:
            raise DigestError(f"{file}: sha256 {found}", f"sha256 {self.sha256}")
        return file, data
