"""Copies of the models that served last, on disk: what a start takes where the config names a model that cannot serve.

The files that the config names may have been overwritten since, so whole copies are kept, each under its digest, with
its signature where keys are trusted. `last-good.json` says which camera had which. Each device has a
folder beside the outbox file, with nothing in it but what is in use.
"""

import contextlib
import logging
import re
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from edgemeta.daemon.config.config import Config
from edgemeta.daemon.config.state_folder import state_folder
from edgemeta.daemon.inference.model_file import ModelFile
from edgemeta.model.address import Address
from edgemeta.model.atomic_write import write_atomically
from edgemeta.model.errors import EdgemetaError
from edgemeta.model.signature import signature_of

log = logging.getLogger(__name__)

INDEX = "last-good.json"
SUFFIX = ".safetensors"
MOST_INDEX_BYTES = 1_000_000
OURS = re.compile(r"\.?([0-9a-f]{64})\.safetensors(\.sig)?(\..*)?")
"""Names of copies, of their signatures, and of what a killed service left of them half written."""

Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class NothingRememberedError(EdgemetaError):
    """No model is remembered for a camera."""


class LastGoodError(EdgemetaError):
    """The copies cannot be written, with the reason in one sentence."""


class Remembered(BaseModel):
    """Digests of the models that served last, by camera; model: that of cameras without one of their own.

    refused: digests of models that failed when they were tried on live frames, and how.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: Literal[1] = 1
    model: Digest | None = None
    cameras: dict[str, Digest] = {}
    refused: dict[Digest, str] = {}

    @property
    def digests(self) -> set[str]:
        """The models of which there is a copy."""
        return {*self.cameras.values(), *([self.model] if self.model else [])}


def folder_of(config: Config) -> Path:
    """Return the folder of a device's copies."""
    return state_folder(config.mqtt.outbox) / f"models-{config.device}"


class LastGood:
    """The copies in one folder. Any number of instances may read; one writes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self) -> Remembered:
        """Return what is remembered; nothing where there is no index, or none that can be read."""
        index = self.folder / INDEX
        try:
            with index.open("rb") as file:
                return Remembered.model_validate_json(file.read(MOST_INDEX_BYTES))
        except FileNotFoundError:
            return Remembered()
        except (OSError, ValidationError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is damaged"
            log.warning("%s: the last good model is not known: %s", index, reason)
            return Remembered()

    def addresses(self, cameras: Collection[str]) -> dict[str, str]:
        """Return the copy for each camera, with the digest that it must have. Raises NothingRememberedError."""
        remembered = self.read()
        found = {camera: remembered.cameras.get(camera, remembered.model) for camera in cameras}
        for camera, digest in found.items():
            if digest is None:
                raise NothingRememberedError(f"no model that served before is remembered for camera {camera}")
        return {camera: str(Address(str(self._copy(str(digest))), digest)) for camera, digest in found.items()}

    def write(self, remembered: Remembered, files: Collection[ModelFile]) -> None:
        """Remember models, of which `files` may not have been copied yet. Raises LastGoodError.

        The copies come first and the index after them, so that it never names what is not there.
        """
        digests = remembered.digests
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            for file in files:
                self._keep(file)
            for digest in digests:
                self._copy(digest).stat()  # somebody else may have removed it
            _write_unless_same(self.folder / INDEX, remembered.model_dump_json(indent=1).encode())
        except OSError as error:
            digests |= self.read().digests
            raise LastGoodError(f"{error.filename or self.folder}: {error.strerror}") from error
        finally:
            self._tidy(digests)

    def _keep(self, file: ModelFile) -> None:
        """Write the copy of a file, and of its signature. Raises OSError."""
        copy = self._copy(file.model.digest)
        if file.signature is not None:
            _write_unless_same(signature_of(copy), file.signature)
        _write_unless_same(copy, file.content)

    def _tidy(self, digests: Collection[str]) -> None:
        """Remove the copies that nobody needs any more; one that cannot be removed is no matter."""
        with contextlib.suppress(OSError):
            for path in self.folder.iterdir():
                ours = OURS.fullmatch(path.name)
                if ours and (ours[1] not in digests or path.name.startswith(".")):
                    path.unlink()

    def _copy(self, digest: str) -> Path:
        return self.folder / f"{digest}{SUFFIX}"


def _write_unless_same(path: Path, content: bytes) -> None:
    if not path.is_file() or path.read_bytes() != content:
        write_atomically(path, content)
