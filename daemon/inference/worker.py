"""The worker thread: takes the newest frame of each camera in turn, classifies it and queues its messages."""

import logging
import threading
import time
from collections.abc import Callable

from edgemeta.daemon.capture.latest_frames import CapturedFrame, LatestFrames
from edgemeta.daemon.inference.pipeline import FrameResult, Pipeline
from edgemeta.daemon.messages.channels import EVENT, FRAME, STATE
from edgemeta.daemon.messages.records import EventKind
from edgemeta.daemon.metrics.counters import FrameCounters
from edgemeta.daemon.metrics.latency import StageLatencies
from edgemeta.daemon.mqtt.publisher import Publisher
from edgemeta.daemon.runtime.heartbeat import Heartbeat
from edgemeta.daemon.runtime.threads import guarded_thread
from edgemeta.model.errors import FrameError
from edgemeta.plugins.api import BackendError, SessionLostError

log = logging.getLogger(__name__)

FRAME_WITHIN = 10.0
"""Seconds after which a worker that has not classified its current frame counts as hung."""


FrameListener = Callable[[CapturedFrame, FrameResult], None]
"""Called after each frame is classified and its message queued; must not block."""

BackendErrorHandler = Callable[[str, BackendError], None]
"""Called when the backend failed on a camera's frame; may set another model for that frame."""


class Worker:
    """Runs in one thread until the frames are closed; the current frame is finished.

    A thread that hangs in a model can be abandoned: a new thread takes over its frame, and its own result is discarded.
    """

    def __init__(
        self,
        frames: LatestFrames,
        pipelines: dict[str, Pipeline],
        counters: dict[str, FrameCounters],
        latencies: StageLatencies,
        publisher: Publisher,
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        self._frames = frames
        self._pipelines = pipelines
        self._counters = counters
        self._latencies = latencies
        self._publisher = publisher
        self._on_fatal = on_fatal
        self._failing: dict[str, str] = {}
        self._handing = threading.Lock()
        self._thread: threading.Thread | None = None
        self._current: CapturedFrame | None = None
        self._taken_at = 0.0
        self.frame_listeners: list[FrameListener] = []
        self.on_backend_error: BackendErrorHandler | None = None
        self.heartbeat = Heartbeat("worker")

    def start(self) -> None:
        """Start the thread. A SessionLostError ends the service: every later frame would fail, too."""
        self._begin(None)

    def end(self, timeout: float) -> bool:
        """Wait for the thread to end after the frames were closed; False where it hangs and is abandoned."""
        if self._thread is not None:
            self._thread.join(timeout)
        return self._thread is None or not self._thread.is_alive()

    def hangs_on(self, seconds: float) -> str | None:
        """The camera whose frame the worker has been processing for longer than this; None otherwise."""
        current = self._current
        return current.camera if current is not None and time.monotonic() - self._taken_at > seconds else None

    def abandon_thread(self) -> None:
        """Continue in a new thread, first with the current frame, if there is one."""
        with self._handing:
            if self._current is not None:
                self._begin(self._current)

    def _begin(self, first: CapturedFrame | None) -> None:
        self._thread = guarded_thread("worker", lambda: self._run(first), self._on_fatal)
        self._thread.start()

    def _run(self, captured: CapturedFrame | None) -> None:
        """Handle frame after frame until the frames are closed or this thread is abandoned."""
        captured = captured or self._frames.take()
        while captured is not None:
            self._taken_at, self._current = time.monotonic(), captured
            self._handle(captured)
            if self._is_abandoned:
                return
            captured = self._frames.take()

    @property
    def _is_abandoned(self) -> bool:
        return threading.current_thread() is not self._thread

    def _release_frame(self) -> bool:
        """Mark the current frame as done; False where another thread has taken it over."""
        with self._handing:
            if self._is_abandoned:
                return False
            self._current = None
            return True

    def _handle(self, captured: CapturedFrame) -> None:
        """Process one frame. While the backend fails the heartbeat deadline stays; a classified frame clears it."""
        camera = captured.camera
        self.heartbeat.expect_if_idle(f"no frame classified within {FRAME_WITHIN:g} s", FRAME_WITHIN)
        counters = self._counters[camera]
        try:
            step = self._step(captured)
        except (FrameError, BackendError) as error:
            if not self._release_frame():
                return
            counters.failed += 1
            if isinstance(error, SessionLostError):
                raise
            self._log_failure(camera, str(error))
            if isinstance(error, FrameError):
                self.heartbeat.clear()
            return
        if not self._release_frame():
            return
        counters.processed += 1
        counters.unknown += step.fields["unknown"]
        counters.state, counters.counts = step.fields["state"], step.fields["counts"]
        counters.score = None if step.best is None else step.best["score"]
        self._failing.pop(camera, None)
        self._publish(step, captured)
        for listener in self.frame_listeners:
            listener(captured, step)
        self.heartbeat.clear()

    def _step(self, captured: CapturedFrame) -> FrameResult:
        """Classify a frame; where the backend failed and another model was set meanwhile, with that one."""
        pipeline, counters = self._pipelines[captured.camera], self._counters[captured.camera]
        before = counters.drops(captured.superseded), counters.withheld
        try:
            return pipeline.classify(captured, *before)
        except BackendError as error:
            if self.on_backend_error is not None:
                self.on_backend_error(captured.camera, error)
            if self._is_abandoned or not pipeline.model_changed:
                raise
            return pipeline.classify(captured, *before)

    def _publish(self, step: FrameResult, captured: CapturedFrame) -> None:
        """Queue the messages. A withheld frame is counted after its own message was made."""
        self._latencies.add(step.stages)
        if step.updates.withheld:
            self._counters[captured.camera].withheld += 1
        else:
            started = time.monotonic_ns()
            outgoing = self._publisher.encode(FRAME, step.fields, captured.camera, captured.frame.captured_ns)
            self._latencies.add({"encode": outgoing.made_ns - started})
            self._publisher.send(outgoing)
        if step.updates.state is not None:
            self._publisher.send(self._publisher.encode(STATE, step.updates.state, captured.camera))
        for event in step.updates.events:
            if event.label is not None and event.zone is None and event.kind is EventKind.APPEARED:
                grown = (event.count or 0) - (event.previous_count or 0)
                self._counters[captured.camera].appeared[event.label] += grown
            self._publisher.send(self._publisher.encode(EVENT, event, captured.camera))

    def _log_failure(self, camera: str, reason: str) -> None:
        """Log an error once until a frame succeeds; the counter goes on."""
        if self._failing.get(camera) != reason:
            self._failing[camera] = reason
            log.error("camera %s: frame not classified: %s", camera, reason, extra={"camera": camera})
