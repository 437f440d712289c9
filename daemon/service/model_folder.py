"""The models that a command can choose: the shipped ones and the files of `swap.model_folder`."""

import hashlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from edgemeta.daemon.config.config import Config
from edgemeta.model.address import Address
from edgemeta.model.errors import ModelError
from edgemeta.model.file import read
from edgemeta.model.small_file import is_file
from edgemeta.model.zoo import names

_Version: TypeAlias = tuple[int, int, int]
"""Time of the last change in ns, bytes, and inode of a file."""

SUFFIX = ".safetensors"

MOST = 100
"""Most models that are listed."""


def chosen_name(address: str) -> str:
    """Return the name by which the command `model` chooses a model of the config."""
    place = Address.parse(address).place
    return place if place in names() else Path(place).name.removesuffix(SUFFIX)


def choosable(config: Config) -> tuple[str, ...]:
    """Return the names of the models that a command can choose, sorted; none where the config names no folder."""
    if config.swap.model_folder is None:
        return ()
    found = {file.name.removesuffix(SUFFIX) for file, _ in _files(config)}
    return tuple(sorted({*names(), *found}))[:MOST]


def _files(config: Config) -> Iterator[tuple[Path, _Version]]:
    """The model files in the folder, and what changes with the content of each; none where it cannot be listed."""
    if config.swap.model_folder is None:
        return
    try:
        places = sorted(Path(config.swap.model_folder).iterdir())
    except OSError:
        return
    for file in places:
        if file.suffix == SUFFIX and not file.name.startswith(".") and is_file(file):
            with suppress(OSError):  # it is gone since
                status = file.stat()
                yield file, (status.st_mtime_ns, status.st_size, status.st_ino)


class ModelFolder:
    """Digests of the files in the folder; each is read again only when it has changed."""

    def __init__(self) -> None:
        self._known: dict[Path, tuple[_Version, str]] = {}

    def state(self, config: Config) -> object:
        """Return what changes when a model comes, goes or is replaced: names and versions of the files."""
        return list(_files(config))

    def digest_of(self, config: Config, name: str) -> str | None:
        """Return the SHA-256 of a model's file in the folder; None where there is none that can be read."""
        for file, version in _files(config):
            if file.stem == name:
                return self._digest(file, version)
        return None

    def _digest(self, file: Path, version: _Version) -> str | None:
        known = self._known.get(file)
        if known is None or known[0] != version:
            try:
                known = self._known[file] = version, hashlib.sha256(read(file)).hexdigest()
            except ModelError:
                return None
        return known[1]
