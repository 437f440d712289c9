"""Uses a model that was taught on the live page: swapped in like any other, with its signature where keys are trusted.

As with a model chosen by command, the config decides again after a reload or restart; so the answer has the line that
keeps it.
"""

import hashlib
import logging
from dataclasses import replace
from pathlib import Path

from edgemeta.daemon.collect.collection import CollectionService, ModelUse
from edgemeta.daemon.collect.errors import CollectError
from edgemeta.daemon.config.config import Config
from edgemeta.daemon.service.change_queue import ChangeQueue
from edgemeta.daemon.service.change_result import ChangeResult
from edgemeta.daemon.service.plan import replan
from edgemeta.model.address import Address

log = logging.getLogger(__name__)


class TaughtModels:
    """Requests swaps from the change queue; the result is the collection's `last_use`."""

    def __init__(self, changes: ChangeQueue, collection: CollectionService) -> None:
        self._changes = changes
        self._collection = collection

    def use(self, camera: str, file: Path) -> None:
        """Request that a camera uses a model file. Raises CollectError if the file cannot be read."""
        try:
            digest = hashlib.sha256(file.read_bytes()).hexdigest()
        except OSError as error:
            raise CollectError(f"{file} cannot be read: {error.strerror}") from error
        address = str(Address(str(file), digest))
        wanted = ModelUse(camera, "running", file, "tried on live frames", f"cameras.{camera}.model: {address}")
        self._collection.last_use = wanted
        log.info("camera %s: using the taught model %s", camera, file.name, extra={"camera": camera})

        def answer(outcome: ChangeResult) -> None:
            self._collection.last_use = replace(
                wanted, state="done" if outcome.ok else "failed", message=outcome.message
            )

        self._changes.swap_model(
            lambda running: replan(_with_model(running.base, camera, address), running), answer, (address, camera)
        )


def _with_model(running: Config, camera: str, address: str) -> Config:
    changed = running.cameras[camera].model_copy(update={"model": address})
    return running.model_copy(update={"cameras": running.cameras | {camera: changed}})
