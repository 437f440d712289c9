"""The trial: after the exchange the old networks are kept until the new ones have served enough frames.

A new one that fails on a frame loses none: the old ones take over at once and answer that frame. One that hangs is
left behind, with the worker's thread in it, and another thread goes on with that frame and the old ones.
"""

import threading
from collections.abc import Mapping, Sequence

from edgemeta.daemon.capture.latest_frames import CapturedFrame
from edgemeta.daemon.inference.pipeline import Pipeline, Step
from edgemeta.daemon.inference.swap.replacement import Exchange
from edgemeta.daemon.inference.worker import Worker
from edgemeta.plugins.api import BackendError

FRAME_WITHIN = 5.0
"""Seconds after which a successor that has not answered one frame counts as hung."""


class Trial:
    """Counts what each exchange's successor serves. `changed` is notified whenever something has come of it."""

    def __init__(
        self,
        exchanges: Sequence[Exchange],
        pipelines: Mapping[str, Pipeline],
        worker: Worker,
        frames: int,
        changed: threading.Condition,
    ) -> None:
        self._exchanges = {camera: exchange for exchange in exchanges for camera in exchange.cameras}
        self._pipelines = pipelines
        self._worker = worker
        self._wanted = frames
        self._changed = changed
        self._served = dict.fromkeys(exchanges, 0)
        self._failure: str | None = None

    def seen(self, captured: CapturedFrame, _step: Step) -> None:
        """Count a frame that was served, from the worker's thread."""
        exchange = self._exchanges.get(captured.camera)
        if exchange is None or self._pipelines[captured.camera].network is not exchange.after:
            return
        self._served[exchange] += 1
        if self.done:
            with self._changed:
                self._changed.notify_all()

    def failed(self, camera: str, error: BackendError) -> None:
        """Hear, in the worker's thread, that the backend failed on a frame; where a successor did, go back."""
        exchange = self._exchanges.get(camera)
        if exchange is None or self._pipelines[camera].network is not exchange.after:
            return
        self.go_back()
        with self._changed:
            self._failure = str(error)
            self._changed.notify_all()

    def go_back(self) -> None:
        """Have every camera ask its old network again, from the next frame on, or from the one that hangs."""
        for camera, exchange in self._exchanges.items():
            self._pipelines[camera].use(exchange.before)
        if self._hangs:
            self._worker.leave_behind()

    @property
    def done(self) -> bool:
        """Whether every successor has served its frames."""
        return all(served >= self._wanted for served in self._served.values())

    @property
    def trouble(self) -> str | None:
        """Why this can come to no good end, in words."""
        return f"no answer to a frame within {FRAME_WITHIN:g} s" if self._hangs else self._failure

    @property
    def _hangs(self) -> bool:
        """Whether a successor has had a frame for too long."""
        camera = self._worker.hangs_on(FRAME_WITHIN)
        if camera is None or camera not in self._exchanges:
            return False
        return self._pipelines[camera].network is self._exchanges[camera].after

    @property
    def progress(self) -> str:
        """How far it is, for people."""
        return f"{min(self._served.values())} of {self._wanted} frames"

    def served(self, exchange: Exchange) -> int:
        """Frames that a successor has served so far."""
        return self._served[exchange]
