"""The frames that the page shows: each camera's newest classified frame, and its scores over time.

The worker adds every frame: a reference, a number and, four times per second, a point. Nothing is copied or encoded
before a client requests it, and memory is bounded.
"""

import itertools
import threading
from collections import deque
from dataclasses import dataclass

from edgemeta.daemon.capture.latest_frames import CapturedFrame
from edgemeta.daemon.capture.source import Pixels
from edgemeta.daemon.inference.pipeline import FrameResult
from edgemeta.daemon.messages.records import FrameMessage
from edgemeta.daemon.runtime.clock import NS

POINT_EVERY_NS = NS // 4
POINTS = 480
"""Two minutes of points per camera."""

TIMES = 256
RATE_OVER_NS = 10 * NS
"""Longest time over which the frame rate is measured."""


@dataclass(frozen=True, eq=False)
class ShownFrame:
    """A classified frame. pixels: None if frames are not shown. captured_ns: monotonic."""

    message: FrameMessage
    captured_ns: int
    pixels: Pixels | None


@dataclass(frozen=True)
class ScorePoint:
    """The most probable label, or that of the best object, at one time (monotonic ns), its score, and the state then.

    Points of all cameras are numbered together from 1.
    """

    number: int
    captured_ns: int
    label: str | None
    score: float
    state: str | None


class _History:
    """The recent frames of one camera."""

    def __init__(self) -> None:
        self.newest: ShownFrame | None = None
        self.points: deque[ScorePoint] = deque(maxlen=POINTS)
        self.times: deque[int] = deque(maxlen=TIMES)


class RecentFrames:
    """The recent frames of all cameras. The worker adds, any thread may read."""

    def __init__(self, cameras: list[str], keep_pixels: bool) -> None:
        self._histories = {camera: _History() for camera in cameras}
        self._keep_pixels = keep_pixels
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()

    @property
    def cameras(self) -> list[str]:
        """The cameras, in the config's order."""
        return list(self._histories)

    def add(self, captured: CapturedFrame, step: FrameResult) -> None:
        """Add a frame that was just classified."""
        history, captured_ns = self._histories[captured.camera], captured.frame.captured_ns
        best = step.best
        with self._lock:
            history.newest = ShownFrame(step.frame, captured_ns, captured.frame.pixels if self._keep_pixels else None)
            history.times.append(captured_ns)
            if not history.points or captured_ns - history.points[-1].captured_ns >= POINT_EVERY_NS:
                history.points.append(
                    ScorePoint(
                        next(self._numbers),
                        captured_ns,
                        best["label"] if best else None,
                        best["score"] if best else 0.0,
                        step.frame.state,
                    )
                )

    def newest(self, camera: str) -> ShownFrame | None:
        """Return the newest frame, None before the first."""
        return self._histories[camera].newest

    def points(self, camera: str, after: int) -> list[ScorePoint]:
        """Return the points numbered above `after`, oldest first."""
        with self._lock:
            kept = list(self._histories[camera].points)
        return [point for point in kept if point.number > after]

    def rate(self, camera: str, now_ns: int) -> float:
        """Return the frames classified per second, over at most ten seconds; it falls when no frame arrives."""
        with self._lock:
            kept = list(self._histories[camera].times)
        recent = [time_ns for time_ns in kept if now_ns - time_ns <= RATE_OVER_NS]
        if len(recent) < 2:
            return 0.0
        gaps, span = len(recent) - 1, recent[-1] - recent[0]
        late = now_ns - recent[-1] > 2 * span / gaps  # the next frame is overdue
        return gaps * NS / max(1, now_ns - recent[0] if late else span)
