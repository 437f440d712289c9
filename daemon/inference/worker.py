"""The worker: takes the newest frames in turn, sends each through its pipeline and offers the message."""

import logging
import threading
import time
from collections.abc import Callable

from edgemeta.daemon.capture.latest_frames import CapturedFrame, LatestFrames
from edgemeta.daemon.inference.pipeline import FrameResult, Pipeline
from edgemeta.daemon.messages.channels import EVENT, FRAME, STATE
from edgemeta.daemon.metrics.counters import FrameCounters
from edgemeta.daemon.metrics.latency import StageLatencies
from edgemeta.daemon.mqtt.publisher import Publisher
from edgemeta.daemon.runtime.heartbeat import Heartbeat
from edgemeta.daemon.runtime.threads import guarded_thread
from edgemeta.model.errors import FrameError
from edgemeta.plugins.api import BackendError, SessionLostError

log = logging.getLogger(__name__)

FRAME_WITHIN = 10.0
"""Seconds after which a worker that has not classified the frame in hand counts as hung."""


Watcher = Callable[[CapturedFrame, FrameResult], None]
"""Hears of every frame once it was classified and its message offered; it must be quick."""

Spare = Callable[[str, BackendError], None]
"""Hears that the backend failed on a camera's frame, and may give its pipeline another network for that very frame."""


class Worker:
    """Runs in one thread until the frames are closed; the frame in hand is finished.

    A thread that hangs in a network can be left behind: another one takes its frame, and what the first comes to in the
    end counts for nothing.
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
        self._in_hand: CapturedFrame | None = None
        self._taken_at = 0.0
        self.watchers: list[Watcher] = []
        self.spare: Spare | None = None
        self.heartbeat = Heartbeat("worker")

    def start(self) -> None:
        """Begin to handle frames. A SessionLostError ends the service: every later frame would fail, too."""
        self._begin(None)

    def end(self, timeout: float) -> bool:
        """Wait for the end, once the frames are closed; False where the thread hangs and is left behind."""
        if self._thread is not None:
            self._thread.join(timeout)
        return self._thread is None or not self._thread.is_alive()

    def hangs_on(self, seconds: float) -> str | None:
        """The camera whose frame has been in hand for longer than this; None where there is none."""
        in_hand = self._in_hand
        return in_hand.camera if in_hand is not None and time.monotonic() - self._taken_at > seconds else None

    def abandon_thread(self) -> None:
        """Have another thread go on, first with the frame in hand, where there is one."""
        with self._handing:
            if self._in_hand is not None:
                self._begin(self._in_hand)

    def _begin(self, first: CapturedFrame | None) -> None:
        self._thread = guarded_thread("worker", lambda: self._run(first), self._on_fatal)
        self._thread.start()

    def _run(self, captured: CapturedFrame | None) -> None:
        """Handle frame after frame, for as long as this thread is not left behind."""
        captured = captured or self._frames.take()
        while captured is not None:
            self._taken_at, self._in_hand = time.monotonic(), captured
            self._handle(captured)
            if self._is_left_behind:
                return
            captured = self._frames.take()

    @property
    def _is_left_behind(self) -> bool:
        return threading.current_thread() is not self._thread

    def _put_down(self) -> bool:
        """Have the frame in hand count as answered; False where another thread has taken it."""
        with self._handing:
            if self._is_left_behind:
                return False
            self._in_hand = None
            return True

    def _handle(self, captured: CapturedFrame) -> None:
        """Send one frame through. While the backend fails the pulse stays owed: only a frame classified pays it."""
        camera = captured.camera
        self.heartbeat.expect_if_idle(f"no frame classified within {FRAME_WITHIN:g} s", FRAME_WITHIN)
        counters = self._counters[camera]
        try:
            step = self._step(captured)
        except (FrameError, BackendError) as error:
            if not self._put_down():
                return
            counters.failed += 1
            if isinstance(error, SessionLostError):
                raise
            self._log_failure(camera, str(error))
            if isinstance(error, FrameError):
                self.heartbeat.clear()
            return
        if not self._put_down():
            return
        counters.processed += 1
        counters.state, counters.score = step.fields["state"], step.fields["labels"][0]["score"]
        self._failing.pop(camera, None)
        self._publish(step, captured)
        for watcher in self.watchers:
            watcher(captured, step)
        self.heartbeat.clear()

    def _step(self, captured: CapturedFrame) -> FrameResult:
        """Classify a frame; where the backend failed and another network has taken over, that one is asked."""
        pipeline, counters = self._pipelines[captured.camera], self._counters[captured.camera]
        before = counters.drops(captured.superseded), counters.withheld
        try:
            return pipeline.step(captured, *before)
        except BackendError as error:
            if self.spare is not None:
                self.spare(captured.camera, error)
            if self._is_left_behind or not pipeline.renewed:
                raise
            return pipeline.step(captured, *before)

    def _publish(self, step: FrameResult, captured: CapturedFrame) -> None:
        """Offer the messages. A frame that is withheld is counted only after its own message was made."""
        self._latencies.add(step.stages)
        if step.told.withheld:
            self._counters[captured.camera].withheld += 1
        else:
            begun = time.monotonic_ns()
            outgoing = self._publisher.encode(FRAME, step.fields, captured.camera, captured.frame.captured_ns)
            self._latencies.add({"encode": outgoing.made_ns - begun})
            self._publisher.send(outgoing)
        for channel, message in ((STATE, step.told.state), (EVENT, step.told.event)):
            if message is not None:
                self._publisher.send(self._publisher.encode(channel, message, captured.camera))

    def _log_failure(self, camera: str, reason: str) -> None:
        """Log a fault once until a frame goes well; the count goes on."""
        if self._failing.get(camera) != reason:
            self._failing[camera] = reason
            log.error("camera %s: frame not classified: %s", camera, reason, extra={"camera": camera})
