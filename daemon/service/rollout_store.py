"""What a device keeps of rollouts: the model that it uses instead of the config's, its file, and what has failed.

The accepted order is written after its trial; a start or reload uses its file while it is whole. The file of the order
before stays, too, so that going back needs no network.
"""

import hashlib
import logging
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from edgemeta.daemon.config.config import Config, resolved
from edgemeta.daemon.config.data_folder import data_folder, make_folder
from edgemeta.daemon.config.loader import ConfigFile
from edgemeta.daemon.messages.rollouts import RolloutCommand, WantedModel, lets
from edgemeta.model.address import Address
from edgemeta.model.atomic_write import write_atomically
from edgemeta.model.errors import EdgemetaError, ModelError
from edgemeta.model.file import read
from edgemeta.model.signature import signature_of
from edgemeta.model.small_file import FileError, exists, read_small_file

log = logging.getLogger(__name__)

MOST_BYTES = 100_000
STARTS = 3
"""Starts of the service after which a model that was being tried each time has failed."""


Values: TypeAlias = dict[str, JsonValue]
"""Values of config keys, by their dotted names."""


class ValuesError(EdgemetaError):
    """Values that an order must not give, or that do not fit, with the reason in one sentence."""


class Kept(BaseModel):
    """The file `rollout.json`. accepted: the order in use. before: the model of the one before it.

    tried: the last order that was begun and did not end well; starts: how often it was begun; failed: why it has
    failed for good.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: Literal[1] = 1
    accepted: RolloutCommand | None = None
    before: WantedModel | None = None
    tried: RolloutCommand | None = None
    starts: int = 0
    failed: str | None = None


@dataclass(frozen=True)
class RolloutStore:
    """The files of one device."""

    folder: Path

    @staticmethod
    def of(config: Config) -> "RolloutStore":
        """The store of a config's device."""
        return RolloutStore(data_folder(config.data_folder) / f"rollout-{config.device}")

    def read(self) -> Kept:
        """Return what is kept; nothing, with a warning, where it cannot be read."""
        file = self.folder / "rollout.json"
        try:
            return Kept.model_validate_json(read_small_file(file, MOST_BYTES)) if exists(file) else Kept()
        except (FileError, ValidationError) as error:
            reason = error.reason if isinstance(error, FileError) else "is damaged"
            log.warning("the model of a rollout is not known: %s %s", file, reason)
            return Kept()

    def file_of(self, model: WantedModel) -> Path:
        """Where the file of a model is; its name is the model's."""
        return self.folder / model.sha256 / f"{model.name}.safetensors"

    def address_of(self, model: WantedModel) -> str:
        """How a config names the file of a model."""
        return str(Address(str(self.file_of(model)), model.sha256))

    def has(self, model: WantedModel) -> bool:
        """Whether the file of a model is here, whole and unchanged."""
        try:
            return hashlib.sha256(read(self.file_of(model))).hexdigest() == model.sha256
        except ModelError:
            return False

    def part_of(self, model: WantedModel) -> Path:
        """Where the beginning of a file is that is being downloaded. Raises OSError."""
        folder = self.file_of(model).parent
        make_folder(folder)
        return folder / "part"

    def put(self, model: WantedModel, content: bytes) -> None:
        """Keep the file of a model. Raises OSError."""
        make_folder(self.file_of(model).parent)
        write_atomically(self.file_of(model), content)

    def sign(self, model: WantedModel) -> None:
        """Write the signature of an order beside the file. Raises OSError."""
        if model.signature is not None:
            write_atomically(signature_of(self.file_of(model)), bytes.fromhex(model.signature))

    def begin(self, order: RolloutCommand) -> int:
        """Note that an order is tried; return how often it was begun without an end. Raises OSError."""
        kept = self.read()
        starts = kept.starts + 1 if kept.tried == order and kept.failed is None else 1
        self._write(kept.model_copy(update={"tried": order, "starts": starts, "failed": None}))
        return starts

    def end(self, order: RolloutCommand, failed: str | None) -> None:
        """Note that an order has failed, or was interrupted. Raises OSError."""
        kept = self.read()
        tried = order if failed is not None else None
        self._write(kept.model_copy(update={"tried": tried, "starts": 0, "failed": failed}))

    def accept(self, order: RolloutCommand) -> None:
        """Use an order from now on, and delete the files that are neither its nor of the one before. Raises OSError."""
        kept = self.read()
        before = kept.before
        if kept.accepted is not None and kept.accepted.model not in (None, order.model):
            before = kept.accepted.model
        self._write(Kept(accepted=order, before=before))
        needed = {each.sha256 for each in (order.model, before) if each is not None}
        for folder in self.folder.iterdir():
            if folder.is_dir() and folder.name not in needed:
                shutil.rmtree(folder)

    def _write(self, kept: Kept) -> None:
        make_folder(self.folder)
        write_atomically(self.folder / "rollout.json", kept.model_dump_json(indent=1).encode(), mode=0o600)


def with_values(file: ConfigFile[Config], allowed: Sequence[str], values: Values) -> Config:
    """Return the config of a file as if it had these values. allowed: keys. Raises EdgemetaError with one sentence."""
    for key in values:
        if not lets(allowed, key):
            raise ValuesError(f"{key}: found a value for it, expected only keys of `swap.rollout_keys` to be ordered")
    found, problems = file.validate()
    if found is None or problems:
        raise file.error(problems)
    found, problems = file.laid_over(values).validate()
    if found is None or problems:
        raise ValuesError("{}: found {}, expected {}".format(*problems[0].shown))
    return resolved(found, file.path.parent)


def with_rollout(file: ConfigFile[Config], config: Config, takes_values: bool) -> tuple[Config, Values]:
    """Return the config of a file with model and values of the accepted order, and these values.

    It is as it was without an order. A model whose file is damaged is left out, and so are values that do not fit.
    """
    if config.swap.rollouts == "refuse":
        return config, {}
    store, values = RolloutStore.of(config), Values()
    order = store.read().accepted
    if order is None:
        return config, {}
    if order.values and takes_values:
        try:
            config, values = with_values(file, config.swap.rollout_keys, order.values), order.values
        except EdgemetaError as error:
            log.warning("the values of rollout %s are left out: %s", order.rollout, error)
    if order.model is None:
        return config, values
    if not store.has(order.model):
        log.warning(
            "%s of rollout %s is missing or damaged: the config's model is used", order.model.name, order.rollout
        )
        return config, values
    return config.model_copy(update={"model": store.address_of(order.model)}), values
