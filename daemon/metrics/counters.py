"""What became of a camera's frames since the start. Each number has one writing thread, so none needs a lock."""

from edgemeta.daemon.capture.latest_frames import NewestFrames
from edgemeta.daemon.inference.pipeline import Step
from edgemeta.daemon.messages.records import CameraStats, Drops


class FrameCounters:
    """Counts of one camera beyond the slot, and `newest`, what its newest frame came to; the worker writes them.

    `published` is written by the MQTT thread, `outbox` by one thread at a time, under the outbox's lock, `fps` by
    whoever measures it.
    """

    def __init__(self) -> None:
        self.processed = 0
        self.failed = 0
        self.withheld = 0
        self.outbox = 0
        self.published = 0
        self.newest: Step | None = None
        self.fps = 0.0
        self._measured = 0

    def measure_rate(self, period_s: float) -> None:
        """Set `fps`: frames classified per second since the last call, period_s ago."""
        processed = self.processed
        self.fps = round((processed - self._measured) / period_s, 2) if period_s > 0 else 0.0
        self._measured = processed

    def drops(self, superseded: int, stopped: int = 0) -> dict[str, int]:
        """Return all drops by reason, with those that the slot counts."""
        return {"superseded": superseded, "failed": self.failed, "outbox": self.outbox, "stopped": stopped}


def camera_stats(counters: FrameCounters, frames: NewestFrames, camera: str) -> CameraStats:
    """Sum up one camera.

    captured = published + withheld + all drops + messages in the outbox + at most one frame waiting and one in work;
    after the end the last two are none.
    """
    captured, superseded, waiting = frames.counts(camera)
    newest = counters.newest
    return CameraStats(
        captured=captured,
        processed=counters.processed,
        published=counters.published,
        dropped=Drops(**counters.drops(superseded, stopped=waiting if frames.closed else 0)),
        withheld=counters.withheld,
        fps=counters.fps,
        state=newest.fields["state"] if newest else None,
        score=newest.fields["labels"][0]["score"] if newest else None,
    )
