"""What a live camera's frames say about it: its picture is frozen, black, delayed, damaged or another one."""

from collections import deque
from dataclasses import dataclass

import cv2
import numpy as np

from edgemeta.daemon.capture.retry import Retry
from edgemeta.daemon.capture.source import Frame, SourceError
from edgemeta.daemon.capture.steady_view import SteadyView
from edgemeta.daemon.capture.still_picture import FASTEST_NS, FEWEST, PictureSample, StillPicture, sample_of
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

WITHIN_NS = 10 * NS
"""Damage that comes again within this time lasts."""
LASTS, APART_NS = 3, NS
"""So often, at least this far apart: what comes at once is one incident."""
ENDS_AFTER_NS = 30 * NS
"""How long no picture must be damaged until the damage is over."""

BLACK = 16
"""Largest luma that counts as black: the black level of limited-range video."""
BRIGHT, BRIGHT_POINTS = 3 * BLACK, 3
"""So many single pixels brighter than this are a light, though their blocks are black; one or two are defects."""
FLAT = 2.0
"""Largest difference between the parts of a black picture but for a twentieth at either end, in levels: a dark street
shows more."""
PARTS = (8, 6)
"""Columns and rows of parts for that."""


class FrameCheck:
    """Checks the frames of a camera, also over several openings of its source.

    frozen_after, black_after: seconds of such pictures that are accepted; None accepts them without limit.
    """

    def __init__(self, frozen_after: float | None, black_after: float | None) -> None:
        self._still = StillPicture(frozen_after) if frozen_after is not None else None
        self._black_after = black_after
        shortest = min((frozen_after or 3600) / FEWEST, (black_after or 3600) / FEWEST)
        self._interval_ns = min(FASTEST_NS, round(shortest * NS))
        self._due_ns = 0
        self._size: tuple[int, ...] = ()
        self._lit_ns: int | None = None
        self.black = False
        """Whether the picture has been black for so long; it stays until a picture is not."""

    @property
    def frozen(self) -> bool:
        """Whether the picture has stood still for so long; it stays until the picture changes."""
        return self._still is not None and self._still.still

    def begin(self) -> None:
        """The source was opened: its frames may have another size. What was seen before stays."""
        self._size = ()

    def check(self, frame: Frame) -> None:
        """Check a frame. Raises SourceError if the source must be reopened."""
        pixels, now = frame.pixels, frame.captured_ns
        if pixels.size == 0:
            raise SourceError("the frame is empty")
        if self._size and self._size != pixels.shape:
            raise SourceError(f"frame size changed from {_size(self._size)} to {_size(pixels.shape)}", Retry.AT_ONCE)
        self._size = pixels.shape
        if now < self._due_ns:
            return
        self._due_ns = now + self._interval_ns
        sample = sample_of(pixels)
        if self._still is not None and self._still.due(now):
            self._still.add(sample, now)
        if self._black_after is not None:
            if self._lit_ns is None or not self._is_black(sample):
                self._lit_ns = now
            self.black = now - self._lit_ns > self._black_after * NS

    def _is_black(self, sample: PictureSample) -> bool:
        """Return whether the picture is black but for a clock drawn over it."""
        rows = slice(None) if self._still is None or not len(self._still.rows) else self._still.rows
        blocks, points = sample.blocks[rows], sample.points[rows]
        if blocks.max() > BLACK:
            return False  # as of nearly every picture
        parts = cv2.resize(blocks, PARTS, interpolation=cv2.INTER_AREA)
        darkest, brightest = np.percentile(parts, (5, 95))
        return bool(brightest - darkest <= FLAT and (points > BRIGHT).sum() < BRIGHT_POINTS)


class Damage:
    """Counts the damaged pictures of a camera, over several openings of its source."""

    def __init__(self) -> None:
        self.total = 0
        """Damaged pictures and errors of the decoder since the start."""
        self._of_source = 0
        self._times: deque[int] = deque(maxlen=LASTS)
        self.lasts = False
        """Whether pictures are damaged again and again."""

    def begin(self) -> None:
        """The source was opened: it counts from 0."""
        self._of_source = 0

    def add(self, of_source: int, now_ns: int) -> None:
        """Take the source's count at a monotonic time."""
        grown, self._of_source = of_source - self._of_source, of_source
        self.total += grown
        if grown and not (self._times and now_ns - self._times[-1] < APART_NS):
            self._times.append(now_ns)
        if not self._times:
            return
        since_first, since_last = now_ns - self._times[0], now_ns - self._times[-1]
        comes_again = len(self._times) == LASTS and since_first < WITHIN_NS
        self.lasts = comes_again or (self.lasts and since_last < ENDS_AFTER_NS)


@dataclass(frozen=True)
class Finding:
    """The state of a camera that delivers frames. reopen: whether its source should be reopened."""

    state: CameraState
    reason: str | None = None
    reopen: bool = False


MOVED = "the picture is not what it was: the camera was moved, turned or covered"

RUNNING = Finding(CameraState.RUNNING)
"""Nothing is wrong."""
ANOTHER_VIEW = Finding(CameraState.RUNNING, MOVED)
"""Frames come as they should."""


class Liveness:
    """Judges the frames of one camera, one after the other, also over several openings of its source."""

    def __init__(self, config: CameraConfig) -> None:
        self._config = config
        self._check = FrameCheck(config.frozen_after, config.black_after)
        self._view = SteadyView(config.moved_after) if config.moved_after is not None else None
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
        if self._view is not None and not self._check.black:
            self._view.add(frame.pixels, now)
        self.damage.add(frame.damaged, now)
        frame = self._in_its_time(frame)
        return frame, self._finding(now, frame)

    def _in_its_time(self, frame: Frame) -> Frame:
        """Correct the time of capture by the delay; times of capture never decrease."""
        arrived_ns = frame.captured_ns
        delay_ns = 0 if frame.stream_ns is None else self._delay.add(arrived_ns, frame.stream_ns)
        self._delay_s = None if frame.stream_ns is None or not self._delay.is_known else delay_ns / NS
        self._captured_ns = max(self._captured_ns, arrived_ns - delay_ns)
        return frame._replace(captured_ns=self._captured_ns, delay_ns=arrived_ns - self._captured_ns)

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
        if self._view is not None and self._view.moved:
            return ANOTHER_VIEW
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


def _size(shape: tuple[int, ...]) -> str:
    return f"{shape[1]}x{shape[0]}"
