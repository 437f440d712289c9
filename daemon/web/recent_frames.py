"""What the page shows of each camera: its newest classified frame, and how sure the network was over time.

The worker adds every frame: a reference, a number and, four times per second, a point. Nothing is copied or encoded
until somebody looks, and nothing grows.
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

MOMENTS = 256
RATE_OVER_NS = 10 * NS
"""How far back the frame rate looks, at most."""


@dataclass(frozen=True, eq=False)
class ShownFrame:
    """A frame that was classified. pixels: None where pictures are not shown. captured_ns: monotonic."""

    message: FrameMessage
    captured_ns: int
    pixels: Pixels | None


@dataclass(frozen=True)
class ScorePoint:
    """The most probable label at one moment (monotonic ns), its score, and the smoothed label then.

    Moments of all cameras are numbered from 1 as they come.
    """

    number: int
    captured_ns: int
    label: str
    score: float
    state: str | None


class _Memory:
    """What is kept of one camera."""

    def __init__(self) -> None:
        self.newest: ShownFrame | None = None
        self.points: deque[ScorePoint] = deque(maxlen=POINTS)
        self.moments: deque[int] = deque(maxlen=MOMENTS)


class RecentFrames:
    """The memories of all cameras. The worker adds, any thread may ask."""

    def __init__(self, cameras: list[str], pictures: bool) -> None:
        self._memories = {camera: _Memory() for camera in cameras}
        self._pictures = pictures
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()

    @property
    def cameras(self) -> list[str]:
        """The cameras, in the config's order."""
        return list(self._memories)

    def add(self, captured: CapturedFrame, step: FrameResult) -> None:
        """Take a frame that was classified just now."""
        memory, came = self._memories[captured.camera], captured.frame.captured_ns
        best = step.frame.labels[0]
        with self._lock:
            memory.newest = ShownFrame(step.frame, came, captured.frame.pixels if self._pictures else None)
            memory.moments.append(came)
            if not memory.points or came - memory.points[-1].captured_ns >= POINT_EVERY_NS:
                memory.points.append(ScorePoint(next(self._numbers), came, best.label, best.score, step.frame.state))

    def newest(self, camera: str) -> ShownFrame | None:
        """Return the newest frame, None before the first."""
        return self._memories[camera].newest

    def points(self, camera: str, after: int) -> list[ScorePoint]:
        """Return the points with greater numbers than `after`, oldest first."""
        with self._lock:
            kept = list(self._memories[camera].points)
        return [point for point in kept if point.number > after]

    def rate(self, camera: str, now_ns: int) -> float:
        """Return the frames classified per second, over the last ten seconds at most; it sinks once none come."""
        with self._lock:
            kept = list(self._memories[camera].moments)
        recent = [moment for moment in kept if now_ns - moment <= RATE_OVER_NS]
        if len(recent) < 2:
            return 0.0
        gaps, span = len(recent) - 1, recent[-1] - recent[0]
        late = now_ns - recent[-1] > 2 * span / gaps  # the next frame should have come
        return gaps * NS / max(1, now_ns - recent[0] if late else span)
