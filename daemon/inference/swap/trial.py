"""The trial: after the replacement the old models are kept until the new ones have classified enough frames.

No frame is lost when a new model fails: the old ones take over at once and classify that frame. A new model that hangs
is abandoned together with the worker's thread, and another thread continues with that frame and the old models.
"""

import threading
from collections.abc import Mapping, Sequence

from edgemeta.daemon.capture.latest_frames import CapturedFrame
from edgemeta.daemon.inference.pipeline import FrameResult, Pipeline
from edgemeta.daemon.inference.swap.replacement import Replacement
from edgemeta.daemon.inference.worker import Worker
from edgemeta.plugins.api import BackendError

FRAME_WITHIN = 5.0
"""Seconds after which a new model that has not classified one frame counts as hung."""


class Trial:
    """Counts the frames of each new model. `changed` is notified on progress and on failure."""

    def __init__(
        self,
        replacements: Sequence[Replacement],
        pipelines: Mapping[str, Pipeline],
        worker: Worker,
        frames: int,
        changed: threading.Condition,
    ) -> None:
        self._replacements = {camera: replacement for replacement in replacements for camera in replacement.cameras}
        self._pipelines = pipelines
        self._worker = worker
        self._wanted = frames
        self._changed = changed
        self._served = dict.fromkeys(replacements, 0)
        self._failure: str | None = None

    def on_frame(self, captured: CapturedFrame, _step: FrameResult) -> None:
        """Count a classified frame, from the worker's thread."""
        replacement = self._replacements.get(captured.camera)
        if replacement is None or self._pipelines[captured.camera].loaded is not replacement.after:
            return
        self._served[replacement] += 1
        if self.done:
            with self._changed:
                self._changed.notify_all()

    def on_error(self, camera: str, error: BackendError) -> None:
        """Revert if a new model failed on a frame; called in the worker's thread."""
        replacement = self._replacements.get(camera)
        if replacement is None or self._pipelines[camera].loaded is not replacement.after:
            return
        self.revert()
        with self._changed:
            self._failure = str(error)
            self._changed.notify_all()

    def revert(self) -> None:
        """Set the old model of every camera again, from the next frame on, or from the one that hangs."""
        for camera, replacement in self._replacements.items():
            self._pipelines[camera].set_model(replacement.before)
        if self._hangs:
            self._worker.abandon_thread()

    @property
    def done(self) -> bool:
        """Whether every new model has classified its frames."""
        return all(served >= self._wanted for served in self._served.values())

    @property
    def failure(self) -> str | None:
        """Reason why the trial must fail, or None."""
        return f"no answer to a frame within {FRAME_WITHIN:g} s" if self._hangs else self._failure

    @property
    def _hangs(self) -> bool:
        """Whether a new model has had one frame for too long."""
        hanging = (camera for camera in self._worker.hangs_on(FRAME_WITHIN) if camera in self._replacements)
        return any(self._pipelines[camera].loaded is self._replacements[camera].after for camera in hanging)

    @property
    def progress(self) -> str:
        """Progress, for log lines."""
        return f"{min(self._served.values())} of {self._wanted} frames"

    def served(self, replacement: Replacement) -> int:
        """Frames that a new model has classified so far."""
        return self._served.get(replacement, 0)
