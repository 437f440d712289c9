"""The models that a command can choose: the shipped ones and the files of `swap.model_folder`."""

import hashlib
from pathlib import Path

from edgemeta.daemon.config.config import Config
from edgemeta.model.address import Address
from edgemeta.model.zoo import names

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
    try:
        files = [each.name for each in Path(config.swap.model_folder).iterdir() if each.suffix == SUFFIX]
    except OSError:
        files = []
    found = {name.removesuffix(SUFFIX) for name in files if not name.startswith(".")}
    return tuple(sorted({*names(), *found}))[:MOST]


class ModelFolder:
    """Digests of the files in the folder; each is read again only when it has changed."""

    def __init__(self) -> None:
        self._known: dict[Path, tuple[tuple[int, int, int], str]] = {}

    def state(self, config: Config) -> object:
        """Return what changes when a model comes, goes or is replaced: names and versions of the files."""
        if config.swap.model_folder is None:
            return None
        try:
            return sorted(
                (each.name, each.stat().st_mtime_ns, each.stat().st_size)
                for each in Path(config.swap.model_folder).iterdir()
                if each.suffix == SUFFIX
            )
        except OSError:
            return None

    def digest_of(self, config: Config, name: str) -> str | None:
        """Return the SHA-256 of a model's file in the folder; None where there is none that can be read."""
        if config.swap.model_folder is None:
            return None
        file = Path(config.swap.model_folder) / f"{name}{SUFFIX}"
        try:
            status = file.stat()
            version = status.st_mtime_ns, status.st_size, status.st_ino
            known = self._known.get(file)
            if known is None or known[0] != version:
                known = self._known[file] = version, hashlib.sha256(file.read_bytes()).hexdigest()
        except OSError:
            return None
        return known[1]
