"""How a config, a command or a command line names a model: a shipped name or a path, with the file's digest if wanted.

`NAME@sha256:HEX` and `PATH@sha256:HEX` take that very file and no other. What ships with the package has its digest in
`zoo/SHA256SUMS`, so that a damaged installation is noticed without it. A digest is always that of the bytes that are
then used.
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
    """A model file that is another one than expected: what was found and what was expected, each in words."""

    def __init__(self, found: str, expected: str) -> None:
        super().__init__(f"{found}, expected {expected}")
        self.found = found
        self.expected = expected


@dataclass(frozen=True)
class Address:
    """A shipped model's name or a model file's path, and the SHA-256 in hex that the file must have, if any."""

    place: str
    sha256: str | None = None

    @staticmethod
    def parse(text: str) -> "Address":
        """Take a name apart. Raises DigestError where a digest is begun and is none."""
        place, mark, digest = text.rpartition(MARK)
        if not mark:
            return Address(text)
        if not place or not re.fullmatch("[0-9A-Fa-f]{64}", digest):
            raise DigestError(text[:200], f"a name or path, `{MARK}` and 64 hexadecimal digits")
        return Address(place, digest.lower())

    def __str__(self) -> str:
        return self.place if self.sha256 is None else f"{self.place}{MARK}{self.sha256}"

    def read(self) -> tuple[Path, bytes]:
        """Give the file and its bytes. Raises ModelError; DigestError where they are not those expected."""
        file = find(self.place)
        data = read(file)
        found = hashlib.sha256(data).hexdigest()
        shipped = shipped_digest(file)
        if shipped is not None and found != shipped:
            raise DigestError(
                f"{file}: damaged, its sha256 is {found}", f"{shipped}, with which it shipped (install edgemeta again)"
            )
        if self.sha256 is not None and found != self.sha256:
            raise DigestError(f"{file}: sha256 {found}", f"sha256 {self.sha256}")
        return file, data
