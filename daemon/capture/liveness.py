"""What a live camera's frames say about it: its picture is frozen, black, delayed or damaged."""

from dataclasses import dataclass, replace

from edgemeta.daemon.capture.damage import Damage
from edgemeta.daemon.capture.frame_check import FrameCheck
from edgemeta.daemon.capture.source import Frame
from edgemeta.daemon.capture.stream_delay import StreamDelay
from edgemeta.daemon.config.camera import CameraConfig
from edgemeta.daemon.messages.records import CameraState
from edgemeta.daemon.runtime.backoff import Backoff
from edgemeta.daemon.runtime.clock import NS

REOPENED_AFTER, REOPENED_AT_MOST_AFTER = 30.0, 900.0
"""Seconds between two attempts to end a frozen picture by reopening its source, at first and at most."""

IN_TIME = 0.5
"""A camera is no longer delayed below this part of the bound."""

HELD_NS = 3 * NS
"""How long frames must be late, or in time again, until the state says so."""


@dataclass(frozen=True)
class Finding:
    """The state of a camera that delivers frames. reopen: whether its source should be reopened."""

    state: CameraState
    reason: str | None = None
    reopen: bool = False


RUNNING = Finding(CameraState.RUNNING)
"""Nothing is wrong."""


class Liveness:
    """Judges the frames of one camera, one after the other, also over several openings of its source."""

    def __init__(self, config: CameraConfig) -> None:
        self._config = config
        self._check = FrameCheck(config.frozen_after, config.black_after)
        self._delay = StreamDelay()
        self.damage = Damage()
        self._reopening = Backoff(REOPENED_AFTER, REOPENED_AT_MOST_AFTER)
        self._reopen_ns = self._frozen_ns = 0
        self._captured_ns = 0
        self._delay_s: float | None = None
        self._late = False
        self._agreed_ns = 0

    @property
    def frozen(self) -> bool:
        """Whether the picture is frozen as far as is known."""
        return self._check.frozen

    @property
    def delay(self) -> float | None:
        """Seconds by which the last frame arrived late; None where its stream does not say it."""
        return self._delay_s

    def begin(self) -> None:
        """The source was opened. A frozen picture stays frozen until it changes."""
        self._check.begin()
        self._delay.begin()
        self.damage.begin()

    def look(self, frame: Frame) -> tuple[Frame, Finding]:
        """Return the frame with the time at which it was captured, and what it says.

        Raises SourceError if the source cannot go on.
        """
        now = frame.captured_ns
        self._check.check(frame)
        self.damage.add(frame.damaged, now)
        frame = self._in_its_time(frame)
        return frame, self._finding(now, frame)

    def _in_its_time(self, frame: Frame) -> Frame:
        """Correct the time of capture by the delay; times of capture never decrease."""
        arrived_ns = frame.captured_ns
        delay_ns = 0 if frame.stream_ns is None else self._delay.add(arrived_ns, frame.stream_ns)
        self._delay_s = None if frame.stream_ns is None or not self._delay.is_known else delay_ns / NS
        self._captured_ns = max(self._captured_ns, arrived_ns - delay_ns)
        return replace(frame, captured_ns=self._captured_ns, delay_ns=arrived_ns - self._captured_ns)

    def _finding(self, now_ns: int, frame: Frame) -> Finding:
        if self._check.black:
            return Finding(CameraState.BLACK, f"black for {self._config.black_after:g} s or longer")
        if self._check.frozen:
            reason = f"the picture has not changed for {self._config.frozen_after:g} s or longer"
            return Finding(CameraState.FROZEN, reason, self._reopen_due(now_ns))
        if self._is_late(now_ns, frame.delay_ns):
            return Finding(CameraState.DELAYED, f"frames arrive more than {self._config.delayed_after:g} s late")
        if frame.link_busy and self._config.delayed_after is not None:
            return Finding(CameraState.DELAYED, "the link to the camera never pauses: frames arrive late")
        return Finding(CameraState.RUNNING, "frames are damaged again and again") if self.damage.lasts else RUNNING

    def _is_late(self, now_ns: int, delay_ns: int) -> bool:
        """Return whether frames are late; it changes after a while, so not for a short stall."""
        bound = self._config.delayed_after
        if bound is None:
            return False
        late = delay_ns > bound * NS * (IN_TIME if self._late else 1)
        if late is self._late:
            self._agreed_ns = now_ns
        elif now_ns - self._agreed_ns > HELD_NS:
            self._late = late
        return self._late

    def _reopen_due(self, now_ns: int) -> bool:
        """Return whether a frozen source should be reopened: at once, then less and less often.

        One that was not frozen for a long time begins anew: others live for a moment after each opening.
        """
        if now_ns - self._frozen_ns > REOPENED_AT_MOST_AFTER * NS:
            self._reopening.reset()
            self._reopen_ns = 0
        self._frozen_ns = now_ns
        if now_ns < self._reopen_ns:
            return False
        self._reopen_ns = now_ns + round(self._reopening.next() * NS)
        return True
