"""Records the last good models for the next start: each time that all models of the config are in use.

The thread of changes writes them, never a thread that frames wait for. A disk that is full or cannot be written is
logged once and tried again; the service continues without copies.
"""

import logging
from collections.abc import Sequence

from edgemeta.daemon.inference.model_file import ModelFile
from edgemeta.daemon.inference.swap.last_good import LastGood, LastGoodError, LastGoodIndex, folder_of
from edgemeta.daemon.inference.swap.replacement import Replacement
from edgemeta.daemon.service.plan import Plan

log = logging.getLogger(__name__)

MOST_REFUSED = 20
"""Most models that failed on live frames and are recorded, the newest."""


class LastGoodRecorder:
    """Writes the copies of one service's models. Used by one thread at a time."""

    def __init__(self, plan: Plan) -> None:
        self._last_good = LastGood(folder_of(plan.config))
        self._wanted: LastGoodIndex | None = None
        self._files: dict[str, ModelFile] = {}
        self._failed = False
        refused = self._last_good.read().refused if plan.refused is not None else {}
        self.record(plan, refused)

    def record(self, plan: Plan, refused: dict[str, str] | None = None) -> None:
        """Record the models of a plan that is in use: those of the config, or their fallbacks at a start."""
        loaded_models = plan.loaded_models
        loaded = {loaded.model.digest: loaded.file for loaded in loaded_models.values() if loaded.file is not None}
        release(plan)
        self._wanted, self._files = None, {}
        self._enabled = plan.config.swap.fallback_at_start
        if self._enabled:
            digests = {camera: loaded.model.digest for camera, loaded in loaded_models.items()}
            shared = [digests[name] for name, camera in plan.config.cameras.items() if camera.model is None]
            self._wanted = LastGoodIndex(model=shared[0] if shared else None, cameras=digests, refused=refused or {})
            self._files = loaded

    def record_failed(self, replacements: Sequence[Replacement], reason: str) -> None:
        """Record models of the config that failed on live frames: the next start uses the fallback instead."""
        if not self._enabled:
            return
        known = self._wanted or self._last_good.read()
        failed = known.refused | {each.after.model.digest: reason for each in replacements}
        newest = list(failed.items())[-MOST_REFUSED:]
        self._wanted = known.model_copy(
            update={"refused": {digest: why for digest, why in newest if digest not in known.digests}}
        )

    @property
    def waiting(self) -> bool:
        """Whether anything still has to be written."""
        return self._wanted is not None

    def write(self) -> None:
        """Write the copies and the index, where they have changed."""
        if self._wanted is None:
            return
        try:
            self._last_good.write(self._wanted, list(self._files.values()))
        except LastGoodError as error:
            if not self._failed:
                log.warning("%s; no last good model is kept for the next start; trying again", error)
            self._failed = True
            return
        if self._failed:
            log.info("the last good model is kept for the next start again, in %s", self._last_good.folder)
        self._wanted, self._files, self._failed = None, {}, False


def release(plan: Plan) -> None:
    """Release the files that a plan's models were read from: they are as large as the models."""
    for loaded in plan.loaded_models.values():
        loaded.file = None
