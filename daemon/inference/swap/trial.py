"""The trial: after the exchange the old networks are kept until the new ones have served enough frames.

A new one that fails on a frame loses none: the old ones take over at once and answer that frame. One that hangs is
left behind, with the worker's thread in it, and another thread goes on with that frame and the old ones.
"""

import threading
from collections.abc import Mapping, Sequence

from edgemeta.daemon.capture.latest_frames import CapturedFrame
from edgemeta.daemon.inference.pipeline import FrameResult, Pipeline
from edgemeta.daemon.inference.swap.replacement import Replacement
from edgemeta.daemon.inference.worker import Worker
from edgemeta.plugins.api import BackendError

FRAME_WITHIN = 5.0
"""Seconds after which a successor that has not answered one frame counts as hung."""


class Trial:
    """Counts what each exchange's successor serves. `changed` is notified whenever something has come of it."""

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

    def seen(self, captured: CapturedFrame, _step: FrameResult) -> None:
        """Count a frame that was served, from the worker's thread."""
        replacement = self._replacements.get(captured.camera)
        if replacement is None or self._pipelines[captured.camera].network is not replacement.after:
            return
        self._served[replacement] += 1
        if self.done:
            with self._changed:
                self._changed.notify_all()

    def failed(self, camera: str, error: BackendError) -> None:
        """Hear, in the worker's thread, that the backend failed on a frame; where a successor did, go back."""
        replacement = self._replacements.get(camera)
        if replacement is None or self._pipelines[camera].network is not replacement.after:
            return
        self.go_back()
        with self._changed:
            self._failure = str(error)
            self._changed.notify_all()

    def go_back(self) -> None:
        """Have every camera ask its old network again, from the next frame on, or from the one that hangs."""
        for camera, replacement in self._replacements.items():
            self._pipelines[camera].use(replacement.before)
        if self._hangs:
            self._worker.abandon_thread()

    @property
    def done(self) -> bool:
        """Whether every successor has served its frames."""
        return all(served >= self._wanted for served in self._served.values())

    @property
    def failure(self) -> str | None:
        """Why this can come to no good end, in words."""
        return f"no answer to a frame within {FRAME_WITHIN:g} s" if self._hangs else self._failure

    @property
    def _hangs(self) -> bool:
        """Whether a successor has had a frame for too long."""
        camera = self._worker.hangs_on(FRAME_WITHIN)
        if camera is None or camera not in self._replacements:
            return False
        return self._pipelines[camera].network is self._replacements[camera].after

    @property
    def progress(self) -> str:
        """How far it is, for people."""
        return f"{min(self._served.values())} of {self._wanted} frames"

    def served(self, replacement: Replacement) -> int:
        """Frames that a successor has served so far."""
        return self._served[replacement]
