"""Copies of the models that were last in use, on disk: the fallback of a start whose config names an unusable model.

The files that the config names may have been overwritten since, so whole copies are kept, each named by its digest,
with its signature where the config trusts keys. `last-good.json` assigns them to cameras. Each device has its own
folder beside the outbox file, which holds nothing that is not in use.
"""

import contextlib
import logging
import re
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from edgemeta.daemon.config.config import Config
from edgemeta.daemon.config.data_folder import data_folder, make_folder
from edgemeta.daemon.inference.model_file import ModelFile
from edgemeta.model.address import Address
from edgemeta.model.atomic_write import write_atomically
from edgemeta.model.errors import EdgemetaError
from edgemeta.model.signature import signature_of
from edgemeta.model.small_file import FileError, exists, is_file, read_small_file

log = logging.getLogger(__name__)

INDEX = "last-good.json"
SUFFIX = ".safetensors"
MOST_INDEX_BYTES = 1_000_000
OURS = re.compile(r"\.?([0-9a-f]{64})\.safetensors(\.sig)?(\..*)?")
"""Names of copies, of their signatures, and of partly written ones that a killed service left."""

Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class NoLastGoodError(EdgemetaError):
    """No copy exists for a camera."""


class LastGoodError(EdgemetaError):
    """The copies cannot be written, with the reason in one sentence."""


class LastGoodIndex(BaseModel):
    """Digests of the last good models by camera. model: that of cameras without one of their own.

    refused: reasons by digest of models that failed on live frames.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: Literal[1] = 1
    model: Digest | None = None
    cameras: dict[str, Digest] = {}
    refused: dict[Digest, str] = {}

    @property
    def digests(self) -> set[str]:
        """Digests of all models that have a copy."""
        return {*self.cameras.values(), *([self.model] if self.model else [])}


def folder_of(config: Config) -> Path:
    """Return the folder of a device's copies."""
    return data_folder(config.data_folder) / f"models-{config.device}"


class LastGood:
    """The copies in one folder. Any number of instances may read; one writes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self) -> LastGoodIndex:
        """Return the index; an empty one where there is none that can be read."""
        index = self.folder / INDEX
        try:
            if not exists(index):
                return LastGoodIndex()
            return LastGoodIndex.model_validate_json(read_small_file(index, MOST_INDEX_BYTES))
        except (FileError, ValidationError) as error:
            reason = error.reason if isinstance(error, FileError) else "is damaged"
            log.warning("the last good model is not known: %s %s", index, reason)
            return LastGoodIndex()

    def addresses(self, cameras: Collection[str]) -> dict[str, str]:
        """Return the address of the copy for each camera, with its digest. Raises NoLastGoodError."""
        index = self.read()
        found = {camera: index.cameras.get(camera, index.model) for camera in cameras}
        for camera, digest in found.items():
            if digest is None:
                raise NoLastGoodError(f"there is no last good model for camera {camera}")
        return {camera: str(Address(str(self._copy(str(digest))), digest)) for camera, digest in found.items()}

    def write(self, index: LastGoodIndex, files: Collection[ModelFile]) -> None:
        """Write the index, and copies of `files` where missing. Raises LastGoodError.

        The copies are written before the index, so that it never names a missing copy.
        """
        digests = index.digests
        try:
            make_folder(self.folder)
            for file in files:
                self._keep(file)
            for digest in digests:
                self._copy(digest).stat()  # it may have been removed meanwhile
            _write_unless_same(self.folder / INDEX, index.model_dump_json(indent=1).encode())
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
        """Remove copies that are no longer needed; ones that cannot be removed are ignored."""
        with contextlib.suppress(OSError):
            for path in self.folder.iterdir():
                ours = OURS.fullmatch(path.name)
                if ours and (ours[1] not in digests or path.name.startswith(".")):
                    path.unlink()

    def _copy(self, digest: str) -> Path:
        return self.folder / f"{digest}{SUFFIX}"


def _write_unless_same(path: Path, content: bytes) -> None:
    if not is_file(path) or path.read_bytes() != content:
        write_atomically(path, content, mode=0o600)
