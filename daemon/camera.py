"""One camera: a thread that opens its source, hands over every frame, and opens it again when it fails."""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from edgemeta.daemon.backoff import Backoff
from edgemeta.daemon.clock import NS
from edgemeta.daemon.config import CameraConfig
from edgemeta.daemon.messages import CameraState
from edgemeta.daemon.sources.api import Frame, Source, SourceEnded, SourceError
from edgemeta.daemon.threads import guarded_thread

log = logging.getLogger(__name__)

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
        crashed: Callable[[BaseException], None],
    ) -> None:
        self.name = name
        self._source = source
        self._backoff = Backoff(config.retry.first, config.retry.cap)
        self._deliver = deliver
        self._tell = tell
        self._failures = 0
        self._last_state: tuple[CameraState, str | None] | None = None
        self._telling = threading.Lock()
        self._stopping = threading.Event()
        self._thread = guarded_thread(f"camera {name}", self._run, crashed)

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

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._source.open()
                self._read()
            except SourceEnded:
                self._enter(CameraState.ENDED)
                return
            except SourceError as error:
                self._failures += 1
                self._enter(CameraState.FAILED, str(error))
            finally:
                self._source.close()
            self._stopping.wait(self._backoff.next())

    def _read(self) -> None:
        """Deliver frame after frame at the source's interval; a frame that comes late moves the later ones with it."""
        first_ns = 0
        due_ns = time.monotonic_ns()
        while not self._stopping.wait(max(0, due_ns - time.monotonic_ns()) / NS):
            frame = self._source.read()
            self._deliver(self.name, frame)
            self._enter(CameraState.RUNNING)
            first_ns = first_ns or frame.captured_ns
            if frame.captured_ns - first_ns > STEADY_AFTER_NS:
                self._backoff.reset()
            due_ns = max(due_ns + self._source.interval_ns, time.monotonic_ns() - self._source.interval_ns)

    def _enter(self, state: CameraState, reason: str | None = None) -> None:
        """Tell a change of state; the same fault again is told but once, and nothing after `stopped`."""
        with self._telling:
            if self._last_state in ((state, reason), (CameraState.STOPPED, None)):
                return
            self._last_state = (state, reason)
            level = logging.INFO if reason is None else logging.WARNING
            log.log(level, "camera %s: %s", self.name, reason or state.value)
            self._tell(self.name, CameraStatus(state, time.monotonic_ns(), reason, self._failures))
