"""One camera: a thread that opens its source, delivers every frame, and reopens it after a failure."""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from edgemeta.daemon.capture.frame_filter import FrameFilter
from edgemeta.daemon.capture.large_pictures import LargePictures
from edgemeta.daemon.capture.liveness import ANOTHER_VIEW, RUNNING, Liveness
from edgemeta.daemon.capture.load import APART, UNHURRIED, CameraLoad
from edgemeta.daemon.capture.retry import Retry, RetryDelays
from edgemeta.daemon.capture.source import Frame, Source, SourceEnded, SourceError, SourceSilentError, SourceWaiting
from edgemeta.daemon.config.camera import CameraConfig
from edgemeta.daemon.messages.records import CameraState
from edgemeta.daemon.runtime.awake import AWAKE
from edgemeta.daemon.runtime.clock import NS
from edgemeta.daemon.runtime.deadline import Deadline
from edgemeta.daemon.runtime.heartbeat import Heartbeat
from edgemeta.daemon.runtime.threads import guarded_thread

log = logging.getLogger(__name__)

PATIENCE = 0.9
"""Part of its timeout for which a source must have been silent while the service was awake; the rest is inaccuracy."""

GRACE = 5.0
"""Seconds beyond its timeout after which a source counts as hung."""

STEADY_AFTER_NS = 5 * NS
"""How long a source must run before its next failure is retried with the initial delay."""

RAN_AFTER_NS = 2 * NS
"""How long a source must run before it is opened again at once where nothing is wrong with it."""

LOOK_EVERY = 2.0
"""Seconds between two looks whether a login that was refused has changed."""

REPORTED_EVERY_NS = 10 * NS
"""How often further failures are reported while nothing else changes: an offline camera fails twice a second."""


@dataclass(frozen=True)
class CameraStatus:
    """State of a camera since a monotonic time in ns; reason: description of the problem, None without one.

    failures, damaged: failures of its source and damaged frames so far.
    """

    state: CameraState
    since_ns: int
    reason: str | None
    failures: int
    damaged: int = 0

    @property
    def description(self) -> str:
        """State and reason in one line."""
        return self.state.value if self.reason is None else f"{self.state.value}: {self.reason}"

    @property
    def has_problem(self) -> bool:
        """Whether somebody should look after the camera."""
        return self.reason is not None

    @property
    def is_ready(self) -> bool:
        """Whether frames come and show what happens now, or all have come, or none are wanted."""
        return self.state in (CameraState.RUNNING, CameraState.ENDED, CameraState.DISABLED)


class Camera:
    """Reads one source in its own thread until stopped or at the source's end."""

    def __init__(
        self,
        name: str,
        config: CameraConfig,
        source: Source,
        deliver: Callable[[str, Frame], None],
        on_status: Callable[[str, CameraStatus], None],
        on_fatal: Callable[[BaseException], None],
        load: CameraLoad = UNHURRIED,
        on_motion: Callable[[str, bool, int], None] | None = None,
        pictures: LargePictures | None = None,
    ) -> None:
        """Keep the parts. on_motion: called with the camera, whether there is motion, and since when (monotonic ns).

        pictures: what is published of it, where that comes from another stream.
        """
        self.name = name
        self._source = source
        self.max_fps = config.max_fps
        """Most frames per second to deliver; None: all. Any thread may set it."""
        self._config = config
        self._delays = RetryDelays(config.retry)
        self._deliver = deliver
        self._on_status = on_status
        self._load = load
        self._on_motion = on_motion
        self.pictures = pictures
        self._motion: bool | None = None
        self._liveness = Liveness(config)
        self._last_error: str | None = None
        self._status_lock = threading.Lock()
        self._stopping = threading.Event()
        self.heartbeat = Heartbeat(f"camera {name}")
        self.status: CameraStatus | None = None
        """The last reported status; None before the start."""
        self._failures = 0
        self._reported_ns = 0
        self._began_ns: int | None = None
        self.outages = 0
        """Number of times that frames stopped: changes from running, or another state with frames, to failed."""
        self.runs = 0
        """Number of times that the source started to deliver frames."""
        self.last_frame_ns: int | None = None
        """Monotonic time at which the last frame was captured, in ns; None before the first."""
        self._thread = guarded_thread(f"camera {name}", self._run, on_fatal)

    def start(self) -> None:
        """Start to open the source and to read it. Without a thread it fails until the next reload."""
        if not self._config.enabled:
            self._set_status(CameraState.DISABLED)
            return
        self._set_status(CameraState.OPENING)
        try:
            self._thread.start()
        except RuntimeError as error:
            self._failures += 1
            self._set_status(CameraState.FAILED, f"has no thread of its own: {error}")

    def stop(self) -> None:
        """Ask the thread to end; `join` waits for it."""
        self._stopping.set()
        if self.pictures is not None:
            self.pictures.stop()

    def join(self, timeout: float) -> None:
        """Wait for the thread to end; one that hangs in its source is abandoned."""
        if self._thread.ident is not None:
            self._thread.join(timeout)
        self._set_status(CameraState.STOPPED)

    @property
    def delivers(self) -> bool:
        """Whether frames arrive."""
        return self.status is not None and self.status.state.delivers

    @property
    def failures(self) -> int:
        """Reported failures of the source, failed attempts to reopen it included."""
        return self.status.failures if self.status is not None else 0

    @property
    def damaged(self) -> int:
        """Damaged frames and errors of the decoder."""
        return self._liveness.damage.total

    @property
    def delay(self) -> float | None:
        """Seconds by which the last frame arrived late; None where the stream's timestamps do not say it."""
        return self._liveness.delay

    @property
    def frame_interval(self) -> float:
        """Seconds between two frames if the camera thread sets the rate; 0 if the source does."""
        return self._source.interval_ns / NS

    def _run(self) -> None:
        while self._may_open():
            try:
                self.heartbeat.expect_within("opening its source", self._config.frame_timeout + GRACE)
                self._began_ns = None
                self._source.open()
                while self._read():
                    self._reopen()
            except SourceEnded:
                self._set_status(CameraState.ENDED)
                self.heartbeat.clear()
                return
            except SourceError as error:
                delay, changed = self._fail(error), error.changed
            else:
                break
            finally:
                self._load.opened()
                self._source.close()
            self.heartbeat.expect_within("waiting for the next attempt", delay + GRACE)
            self._wait(delay, changed)
        self.heartbeat.clear()

    def _fail(self, error: SourceError) -> float:
        """Note a failure; return the seconds until the next attempt."""
        self._failures += 1
        ran = self._began_ns is not None and time.monotonic_ns() - self._began_ns > RAN_AFTER_NS
        if not (ran and error.retry is Retry.RESUME):
            self._set_status(CameraState.FAILED, str(error))
        return self._delays.after(error.retry, ran)

    def _wait(self, seconds: float, changed: Callable[[], bool] | None) -> None:
        """Wait for the next attempt, or until what was refused has changed."""
        deadline = Deadline(seconds)
        while deadline.left and not self._stopping.wait(min(deadline.left, LOOK_EVERY)):
            if changed is not None and changed():
                return

    def _may_open(self) -> bool:
        """Wait until the load allows to open the source; return False when stopping."""
        while not self._stopping.is_set() and (seconds := self._load.opens_in()):
            if seconds > APART and self.status is not None and self.status.state is CameraState.OPENING:
                self._set_status(CameraState.OPENING, "waits until the service is not overloaded any more")
            self.heartbeat.expect_within("waiting to open its source", seconds + GRACE)
            self._stopping.wait(seconds)
        return not self._stopping.is_set()

    def _read(self) -> bool:
        """Deliver frames at the source's interval; a late frame delays the following ones.

        Return whether the source should be opened again, though it delivers frames.
        """
        self._liveness.begin()
        filter_ = FrameFilter(self._config)
        due_ns = time.monotonic_ns()
        heard, skipped = AWAKE.now(), 0
        while self._wait_until(due_ns):
            if self._source.interval_ns and self._load.is_behind():
                self._load.missed(1)
                due_ns = self._next_due(due_ns)
                continue
            try:
                frame = self._source.read()
            except SourceWaiting as waiting:
                if not self._liveness.frozen:  # that stays until a frame differs, also where its source was reopened
                    self._set_status(CameraState.OPENING, str(waiting))
                heard = AWAKE.now()
                continue
            except SourceSilentError:
                if AWAKE.now() - heard > PATIENCE * self._config.frame_timeout:
                    raise
                continue  # the service was late itself
            heard = AWAKE.now()
            self._load.missed(frame.skipped - skipped)
            skipped = frame.skipped
            if self._stopping.is_set():
                return False
            arrived_ns, finding = frame.captured_ns, RUNNING
            if self._source.live:
                frame, finding = self._liveness.look(frame)
            self._set_status(finding.state, finding.reason)  # first, so that a subscriber knows what the frame shows
            self.heartbeat.clear()  # delivery may wait, but then for the worker
            filter_.limit(self.max_fps)
            passed = filter_.apply(frame)
            self._note_motion(filter_.motion, frame.captured_ns)
            if passed is not None:
                self._deliver(self.name, passed)
            self.last_frame_ns = frame.captured_ns
            del frame, passed  # a picture of 1080p has 6 MB, and the next one may be long in coming
            if self._began_ns is None:
                self._began_ns = arrived_ns
                self.runs += 1
                self._load.opened()
            if finding in (RUNNING, ANOTHER_VIEW) and arrived_ns - self._began_ns > STEADY_AFTER_NS:
                self._recover()
            if finding.reopen:
                return True
            due_ns = self._next_due(due_ns)
        return False

    def _note_motion(self, motion: bool | None, captured_ns: int) -> None:
        """Report whether there is motion where that has changed."""
        if motion is not None and motion is not self._motion:
            self._motion = motion
            if self._on_motion is not None:
                self._on_motion(self.name, motion, captured_ns)

    def _next_due(self, due_ns: int) -> int:
        """Return when the next frame is due: one interval later, without those that should have been read by now."""
        interval_ns, now = self._source.interval_ns, time.monotonic_ns()
        late = (now - due_ns) // interval_ns - 1 if interval_ns else 0
        if late > 0:
            self._load.missed(late)
        return due_ns + interval_ns * (1 + max(0, late)) if interval_ns else now

    def _reopen(self) -> None:
        """Close the source and open it again; the camera's state stays. Raises SourceError."""
        self.heartbeat.expect_within("opening its source", self._config.frame_timeout + GRACE)
        self._source.close()
        self._source.open()

    def _wait_until(self, due_ns: int) -> bool:
        """Wait until the next frame is due, which is expected within the source's timeout then; False if stopped."""
        wait = max(0, due_ns - time.monotonic_ns()) / NS
        self.heartbeat.expect_within("reading a frame", wait + self._config.frame_timeout + GRACE)
        return not (self._stopping.wait(wait) if wait else self._stopping.is_set())

    def _recover(self) -> None:
        """Reset the retry delay: the source runs steadily."""
        self._delays.reset()
        if self._last_error is not None:
            self._last_error = None
            log.info("camera %s: recovered", self.name, extra={"camera": self.name})

    def _set_status(self, state: CameraState, reason: str | None = None) -> None:
        """Report a change of state, nothing after `stopped`; further failures alone only from time to time."""
        with self._status_lock:
            before, now = self.status, time.monotonic_ns()
            if before and before.state is CameraState.STOPPED:
                return
            if before and (before.state, before.reason) == (state, reason):
                if before.failures != self._failures and now - self._reported_ns > REPORTED_EVERY_NS:
                    self._report(replace(before, failures=self._failures), now)
                return
            if before and before.state.delivers and state is CameraState.FAILED:
                self.outages += 1
            self._log(state, reason)
            self._report(CameraStatus(state, now, reason, self._failures, self.damaged), now)

    def _report(self, status: CameraStatus, now: int) -> None:
        self.status, self._reported_ns = status, now
        self._on_status(self.name, status)

    def _log(self, state: CameraState, reason: str | None) -> None:
        """Log a change. A source that fails repeatedly with the same error is logged once until it has recovered."""
        intermittent = self._last_error is not None and (state, reason) in (
            (CameraState.RUNNING, None),
            (CameraState.FAILED, self._last_error),
        )
        level = logging.DEBUG if intermittent else logging.INFO if reason is None else logging.WARNING
        fields = {"camera": self.name, "state": state.value, "reason": reason}
        log.log(level, "camera %s: %s", self.name, reason or state.value, extra=fields)
        if state is CameraState.FAILED:
            self._last_error = reason
