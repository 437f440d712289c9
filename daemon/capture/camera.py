"""One camera: a thread that opens its source, hands over every frame, and opens it again when it fails."""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from edgemeta.daemon.capture.frame_check import FrameCheck
from edgemeta.daemon.capture.frame_filter import FrameFilter
from edgemeta.daemon.capture.source import Frame, Source, SourceEnded, SourceError
from edgemeta.daemon.config.camera import CameraConfig
from edgemeta.daemon.messages.records import CameraState
from edgemeta.daemon.runtime.backoff import Backoff
from edgemeta.daemon.runtime.clock import NS
from edgemeta.daemon.runtime.heartbeat import Heartbeat
from edgemeta.daemon.runtime.threads import guarded_thread

log = logging.getLogger(__name__)

GRACE = 5.0
"""Seconds that a source may take beyond its timeout before its camera counts as hung."""

STEADY_AFTER_NS = 5 * NS
"""How long a source must run before its next failure counts as a first one."""


@dataclass(frozen=True)
class CameraStatus:
    """Where a camera stands, since which monotonic nanosecond, and why in words where something is wrong."""

    state: CameraState
    since_ns: int
    reason: str | None
    failures: int


class Camera:
    """Reads one source in its own thread until stopped or at the source's end."""

    def __init__(
        self,
        name: str,
        config: CameraConfig,
        source: Source,
        deliver: Callable[[str, Frame], None],
        tell: Callable[[str, CameraStatus], None],
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        self.name = name
        self._source = source
        self._config = config
        self._backoff = Backoff(config.retry.initial_delay, config.retry.max_delay)
        self._deliver = deliver
        self._tell = tell
        self._fault: str | None = None
        self._telling = threading.Lock()
        self._stopping = threading.Event()
        self.heartbeat = Heartbeat(f"camera {name}")
        self.status: CameraStatus | None = None
        """The last one told; None before the start."""
        self.failures = 0
        """How often the source failed: every failed try to open it again counts, too."""
        self.outages = 0
        """How often frames stopped coming: changes from running to failed."""
        self.runs = 0
        """How often frames began to come."""
        self.last_frame_ns: int | None = None
        """When the last frame came, in nanoseconds of the monotonic clock; None before the first."""
        self._thread = guarded_thread(f"camera {name}", self._run, on_fatal)

    def start(self) -> None:
        """Begin to open the source and read."""
        self._enter(CameraState.OPENING)
        self._thread.start()

    def stop(self) -> None:
        """Ask the thread to end; `join` waits for it."""
        self._stopping.set()

    def join(self, timeout: float) -> None:
        """Wait for the thread to end; one that hangs in its source is left behind."""
        self._thread.join(timeout)
        self._enter(CameraState.STOPPED)

    @property
    def description(self) -> str:
        """Where it stands, in words."""
        status = self.status
        if status is None:
            return "not started"
        return status.state.value if status.reason is None else f"{status.state.value}: {status.reason}"

    @property
    def frame_interval(self) -> float:
        """Seconds between two frames where the camera thread keeps the pace; 0 where the source sets it."""
        return self._source.interval_ns / NS

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self.heartbeat.expect_within("opening its source", self._config.frame_timeout + GRACE)
                self._source.open()
                self._read()
            except SourceEnded:
                self._enter(CameraState.ENDED)
                self.heartbeat.clear()
                return
            except SourceError as error:
                self.failures += 1
                self._enter(CameraState.FAILED, str(error))
            finally:
                self._source.close()
            delay = self._backoff.next()
            self.heartbeat.expect_within("waiting for its next try", delay + GRACE)
            self._stopping.wait(delay)
        self.heartbeat.clear()

    def _read(self) -> None:
        """Deliver frame after frame at the source's interval; a frame that comes late moves the later ones with it."""
        check = FrameCheck(self._config.frozen_after, self._config.black_after)
        filter_ = FrameFilter(self._config)
        first_ns = 0
        due_ns = time.monotonic_ns()
        while not self._stopping.wait(self._until(due_ns)):
            frame = self._source.read()
            if self._stopping.is_set():
                return
            oddity = check.look(frame) if self._source.live else None
            self.heartbeat.clear()  # until the frame is handed over: where that waits, it waits for the worker
            chosen = filter_.choose(frame)
            if chosen is not None:
                self._deliver(self.name, chosen)
            self.last_frame_ns = frame.captured_ns
            self._enter(CameraState.RUNNING, oddity)
            if not first_ns:
                first_ns = frame.captured_ns
                self.runs += 1
            if frame.captured_ns - first_ns > STEADY_AFTER_NS:
                self._settle()
            due_ns = max(due_ns + self._source.interval_ns, time.monotonic_ns() - self._source.interval_ns)

    def _until(self, due_ns: int) -> float:
        """Return the seconds to wait for the next frame's turn, and promise that frame within the source's timeout."""
        wait = max(0, due_ns - time.monotonic_ns()) / NS
        self.heartbeat.expect_within("reading a frame", wait + self._config.frame_timeout + GRACE)
        return wait

    def _settle(self) -> None:
        """The source runs steadily: its next failure is a first one."""
        self._backoff.reset()
        if self._fault is not None:
            self._fault = None
            log.info("camera %s: runs steadily again", self.name, extra={"camera": self.name})

    def _enter(self, state: CameraState, reason: str | None = None) -> None:
        """Tell a change of state; the same fault again is told but once, and nothing after `stopped`."""
        with self._telling:
            told = self.status
            if told and ((told.state, told.reason) == (state, reason) or told.state is CameraState.STOPPED):
                return
            if told and (told.state, state) == (CameraState.RUNNING, CameraState.FAILED):
                self.outages += 1
            self.status = CameraStatus(state, time.monotonic_ns(), reason, self.failures)
            self._log(state, reason)
            self._tell(self.name, self.status)

    def _log(self, state: CameraState, reason: str | None) -> None:
        """Log a change. A source that comes and goes with one and the same fault is logged once until it is steady."""
        comes_and_goes = self._fault is not None and (state, reason) in (
            (CameraState.RUNNING, None),
            (CameraState.FAILED, self._fault),
        )
        level = logging.DEBUG if comes_and_goes else logging.INFO if reason is None else logging.WARNING
        fields = {"camera": self.name, "state": state.value, "reason": reason}
        log.log(level, "camera %s: %s", self.name, reason or state.value, extra=fields)
        if state is CameraState.FAILED:
            self._fault = reason
