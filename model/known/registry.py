"""The registry of known networks, networks.yaml: data, of which each entry says where its files are and what they give.

Nothing of others is in it: an address at a fixed commit or release, the digest of what is there, and our own settings.
"""

from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from edgemeta.model.errors import KnownNetworkError
from edgemeta.model.tasks import TaskName
from edgemeta.model.yaml_file import checked, read_entries

REGISTRY = Path(__file__).with_name("networks.yaml")
RANGES = REGISTRY.with_name("ranges")
"""Folder of the records of calibrations, written by `python -m tools.record_ranges`."""

_FIXED = (
    r"https://(raw\.githubusercontent\.com/[\w.-]+/[\w.-]+/[0-9a-f]{40}"
    r"|github\.com/[\w.-]+/[\w.-]+/releases/download/[\w.-]+)/[\w./-]+"
)
"""An address at a commit or at a release."""
Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Line = Annotated[str, StringConstraints(min_length=1, max_length=120, pattern=r"^[^\n]+$")]


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class RemoteFile(_Record):
    """A file of somebody else. size: bytes."""

    address: Annotated[str, StringConstraints(pattern=f"^{_FIXED}$")]
    sha256: Digest
    size: Annotated[int, Field(ge=1)]

    @property
    def name(self) -> str:
        """The last part of the address."""
        return self.address.rpartition("/")[2]


class Accuracy(_Record):
    """An accuracy as a sentence with its figures, and the command that prints it."""

    figure: Line
    command: Line


class Recorded(_Record):
    """A calibration that was made before. ranges: file of the record, in RANGES. digest: SHA-256 of the integer model.

    accuracy: of this model, beside its float one.
    """

    ranges: Annotated[str, StringConstraints(pattern=r"^[\w.-]+\.json$")]
    digest: Digest
    accuracy: Accuracy

    @property
    def path(self) -> Path:
        """Where the record is."""
        return RANGES / self.ranges


class KnownNetwork(_Record):
    """An entry.

    what: the network in one line. task: of its model. licence: of the files, as SPDX names it. labels: a file with one
    label on each line. settings: keys of `edgemeta import`. gives: what the import makes, an integer model that runs or
    a float model. digest: SHA-256 of the model file that the import makes. recorded: how a float model becomes an
    integer one without calibration images. earlier: digests of integer models that this entry gave before.
    """

    what: Line
    task: TaskName
    licence: Literal["Apache-2.0", "BSD-3-Clause", "MIT"]
    file: RemoteFile
    labels: RemoteFile | None = None
    settings: Mapping[str, Any] = {}
    gives: Literal["integer", "float"]
    digest: Digest
    accuracy: Accuracy
    recorded: Recorded | None = None
    earlier: tuple[Digest, ...] = ()

    @property
    def page(self) -> str:
        """Where a person can read about it: the repository of the file."""
        return "https://github.com/" + "/".join(self.file.address.split("/")[3:5])

    @property
    def summary(self) -> str:
        """What it is, for a person who may want it."""
        return f"{self.what}. Licence: {self.licence}. Measured: {self.made().accuracy.figure}."

    def made(self, as_float: bool = False) -> "KnownNetwork | Recorded":
        """What states digest and accuracy of the model that is made. as_float: as for `gives_integers`."""
        return self if as_float or self.recorded is None else self.recorded

    def gives_integers(self, as_float: bool) -> bool:
        """Whether the model runs as it is. as_float: the float network is wanted, where there are both."""
        return self.gives == "integer" or (self.recorded is not None and not as_float)


@cache
def known_networks(path: Path = REGISTRY) -> Mapping[str, KnownNetwork]:
    """All entries by name. Raises KnownNetworkError."""
    entries, source = read_entries(path, str(path), KnownNetworkError)
    return checked(dict[str, KnownNetwork], entries, source, KnownNetworkError)


def known_network(name: str, path: Path = REGISTRY) -> KnownNetwork:
    """The entry of a name. Raises KnownNetworkError."""
    networks = known_networks(path)
    if name not in networks:
        near = get_close_matches(name, networks, 3) or list(networks)
        raise KnownNetworkError(f"there is no known network {name!r}, expected {', '.join(near)}")
    return networks[name]
