"""The worker thread: takes the newest frame of each camera in turn, classifies it and has its messages queued.

Frames of several cameras with the same model that are ready together may run as one batch (`batch` of the config).
"""

import logging
import threading
from collections.abc import Callable, Sequence

from edgemeta.daemon.capture.latest_frames import CapturedFrame, LatestFrames
from edgemeta.daemon.config.config import BatchConfig
from edgemeta.daemon.inference.pipeline import FrameResult, Pipeline, Ran, run_together
from edgemeta.daemon.metrics.counters import FrameCounters
from edgemeta.daemon.runtime.awake import AWAKE
from edgemeta.daemon.runtime.heartbeat import Heartbeat
from edgemeta.daemon.runtime.threads import guarded_thread
from edgemeta.model.errors import FrameError
from edgemeta.plugins.api import BackendError, SessionLostError

log = logging.getLogger(__name__)

FRAME_WITHIN = 10.0
"""Seconds after which a worker that has not classified its current frame counts as hung."""


FrameListener = Callable[[CapturedFrame, FrameResult], None]
"""Called in the worker's thread after each frame is classified; must not block."""

BackendErrorHandler = Callable[[str, BackendError], None]
"""Called when the backend failed on a camera's frame; may set another model for that frame."""


class Worker:
    """Runs in one thread until the frames are closed; the current frames are finished.

    A thread that hangs in a model can be abandoned: a new thread takes over its frames, and its own results are
    discarded. publish: the first of the listeners to each classified frame. batch: how many frames run together; any
    thread may set it.
    """

    def __init__(
        self,
        frames: LatestFrames,
        pipelines: dict[str, Pipeline],
        counters: dict[str, FrameCounters],
        publish: FrameListener,
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        self._frames = frames
        self._pipelines = pipelines
        self._counters = counters
        self._on_fatal = on_fatal
        self._failing: dict[str, str] = {}
        self._handing = threading.Lock()
        self._one_by_one: str | None = None
        self._thread: threading.Thread | None = None
        self._current: list[CapturedFrame] = []
        self._taken_at = 0.0
        self.batch = BatchConfig()
        self.frame_listeners = [publish]
        self.on_backend_error: BackendErrorHandler | None = None
        self.heartbeat = Heartbeat("worker")

    def start(self) -> None:
        """Start the thread. A SessionLostError ends the service: every later frame would fail, too."""
        self._begin()

    def end(self, timeout: float) -> bool:
        """Wait for the thread to end after the frames were closed; False where it hangs and is abandoned."""
        if self._thread is not None:
            self._thread.join(timeout)
        return self._thread is None or not self._thread.is_alive()

    def hangs_on(self, seconds: float) -> tuple[str, ...]:
        """The cameras whose frames the worker has been processing for longer than this."""
        current = list(self._current)
        is_late = bool(current) and AWAKE.now() - self._taken_at > seconds
        return tuple(captured.camera for captured in current) if is_late else ()

    def abandon_thread(self) -> None:
        """Continue in a new thread, first with the current frames, if there are any."""
        with self._handing:
            if self._current:
                self._begin()

    def _begin(self) -> None:
        self._thread = guarded_thread("worker", self._run, self._on_fatal)
        self._thread.start()

    def _run(self) -> None:
        """Handle frame after frame until the frames are closed or this thread is abandoned.

        Frames that an abandoned thread left are handled one by one.
        """
        frames = self._current[:1] or self._take()
        while frames:
            self._taken_at = AWAKE.now()
            if not self._current:
                self._current = list(frames)
            self._handle(frames)
            if self._is_abandoned:
                return
            frames = self._current[:1] or self._take()

    def _take(self) -> list[CapturedFrame]:
        """Wait for a frame, and take those of other cameras with the same model that the config lets join it."""
        first, batch = self._frames.take(), self.batch
        if first is None or batch.max_frames == 1:
            return [] if first is None else [first]
        loaded = self._pipelines[first.camera].next_loaded
        others = [name for name, each in self._pipelines.items() if each.next_loaded is loaded and name != first.camera]
        return [first, *self._frames.take_more(others, batch.max_frames - 1, batch.wait_ms / 1000)]

    @property
    def _is_abandoned(self) -> bool:
        return threading.current_thread() is not self._thread

    def _release(self, captured: CapturedFrame) -> bool:
        """Mark a frame as done; False where another thread has taken it over."""
        with self._handing:
            if self._is_abandoned:
                return False
            self._current.remove(captured)
            return True

    def _handle(self, frames: Sequence[CapturedFrame]) -> None:
        """Process frames that were taken together: run them, then finish one after the other."""
        self._expect()
        ran = self._run_together(frames)
        for captured, each in zip(frames, ran, strict=True):
            if self._is_abandoned:
                return
            self._expect()
            self._finish(captured, each)

    def _expect(self) -> None:
        """While the backend fails the heartbeat deadline stays; a classified frame clears it."""
        self.heartbeat.expect_if_idle(f"no frame classified within {FRAME_WITHIN:g} s", FRAME_WITHIN)

    def _run_together(self, frames: Sequence[CapturedFrame]) -> Sequence[Ran | None]:
        """Run several frames as one batch; None for each where it is to be run on its own.

        So it is where the batch fails: then the reason is that of a frame, or logged here once.
        """
        alone = [None] * len(frames)
        if len(frames) == 1:
            return alone
        try:
            begun = [self._pipelines[captured.camera].begin(captured) for captured in frames]
            if any(each.loaded is not begun[0].loaded for each in begun):
                return alone  # a model was swapped meanwhile
            return run_together(begun)
        except (FrameError, BackendError) as error:
            if not self._is_abandoned and str(error) != self._one_by_one:
                self._one_by_one = str(error)
                log.warning("frames of %d cameras do not run together but one by one: %s", len(frames), error)
            return alone

    def _finish(self, captured: CapturedFrame, ran: Ran | None) -> None:
        """Classify a frame, if it has not run, and call the listeners."""
        camera = captured.camera
        counters = self._counters[camera]
        try:
            step = self._step(captured, ran)
        except (FrameError, BackendError) as error:
            if not self._release(captured):
                return
            counters.failed += 1
            if isinstance(error, SessionLostError):
                raise
            self._log_failure(camera, str(error))
            if isinstance(error, FrameError):
                self.heartbeat.clear()
            return
        if not self._release(captured):
            return
        counters.processed += 1
        counters.unknown += step.fields["unknown"]
        counters.state, counters.counts = step.fields["state"], step.fields["counts"]
        counters.decoder = captured.frame.decoder
        counters.score = None if step.best is None else step.best["score"]
        self._failing.pop(camera, None)
        for listener in self.frame_listeners:
            listener(captured, step)
        self.heartbeat.clear()

    def _step(self, captured: CapturedFrame, ran: Ran | None) -> FrameResult:
        """Classify a frame; where the backend failed and another model was set meanwhile, with that one.

        ran: the frame, if it ran with others.
        """
        pipeline, counters = self._pipelines[captured.camera], self._counters[captured.camera]
        before = counters.drops(captured.superseded), counters.withheld
        try:
            return pipeline.classify(captured, *before) if ran is None else pipeline.finish(ran, *before)
        except BackendError as error:
            if self.on_backend_error is not None:
                self.on_backend_error(captured.camera, error)
            if self._is_abandoned or not pipeline.model_changed:
                raise
            return pipeline.classify(captured, *before)

    def _log_failure(self, camera: str, reason: str) -> None:
        """Log an error once until a frame succeeds; the counter goes on."""
        if self._failing.get(camera) != reason:
            self._failing[camera] = reason
            log.error("camera %s: frame not classified: %s", camera, reason, extra={"camera": camera})
