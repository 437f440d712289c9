"""The models that a command can choose: shipped ones, files of `swap.model_folder`, and networks of the registry."""

import hashlib
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from edgemeta.daemon.config.config import Config
from edgemeta.daemon.inference.loaded_model import LoadedModel
from edgemeta.model.address import Address
from edgemeta.model.errors import ModelError
from edgemeta.model.file import read
from edgemeta.model.known.registry import KnownNetwork, known_networks
from edgemeta.model.small_file import is_file
from edgemeta.model.tasks import TaskName
from edgemeta.model.zoo import find, names, shipped_digest

_Version: TypeAlias = tuple[int, int, int]
"""Time of the last change in ns, bytes, and inode of a file."""

SUFFIX = ".safetensors"

MOST = 100
"""Most models that are listed."""


def chosen_name(address: str) -> str:
    """Return the name by which the command `model` chooses a model of the config."""
    place = Address.parse(address).place
    return place if place in names() else Path(place).name.removesuffix(SUFFIX)


@dataclass(frozen=True)
class Available:
    """The newest version of a model. network: its entry in the registry, if it is of that."""

    sha256: str
    is_newer: bool
    network: KnownNetwork | None = None


def choosable(config: Config, tasks: Collection[TaskName] = ()) -> tuple[str, ...]:
    """Return the names of the models that a command can choose, sorted; none where the config names no folder.

    tasks: of the running models; networks of the registry, if they may be fetched, have one of these.
    """
    if config.swap.model_folder is None:
        return ()
    found = {file.name.removesuffix(SUFFIX) for file, _ in _files(config)}
    known = known_networks().items() if config.swap.updates == "download" else ()
    fetched = {name for name, each in known if each.task in tasks and each.gives_integers(as_float=False)}
    return tuple(sorted({*names(), *found, *fetched}))[:MOST]


def known_by_name(config: Config, name: str) -> KnownNetwork | None:
    """Return the entry of the registry that a model's name has; None without one, and where it must not be read."""
    network = None if config.swap.updates == "folder" else known_networks().get(name)
    return network if network is not None and network.gives_integers(as_float=False) else None


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

    def available(self, config: Config, address: str, loaded: LoadedModel) -> Available:
        """Return the newest version of a camera's model. address: as the config in effect has it.

        A file of the folder comes first, as somebody has put it there. The registry's is newer than what its entry
        gave before, and than nothing else: a model that was quantized with own pictures stays.
        """
        used, known = loaded.identity.sha256, Address.parse(address)
        name = chosen_name(address)
        if name in names():
            is_checked = config.swap.updates != "folder" and known == Address(name)
            newest = shipped_digest(find(name)) if is_checked else used
            return Available(newest or used, newest not in (None, used))
        digest = self.digest_of(config, name)
        if digest not in (None, used):
            return Available(digest or used, is_newer=True)
        network = known_by_name(config, name)
        if network is None or (used != network.made().digest and (used not in network.earlier or known.sha256)):
            return Available(used, is_newer=False)
        return Available(network.made().digest, used != network.made().digest, network)

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
