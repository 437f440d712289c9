"""What became of a camera's frames since the start. Each number has one writing thread, so none needs a lock."""

from edgemeta.daemon.messages import CameraStats, Drops
from edgemeta.daemon.slot import NewestFrames


class FrameCounters:
    """Counts of one camera beyond the slot, written by the worker.

    `published` is written by the MQTT thread, `outbox` by one thread at a time, under the outbox's lock.
    """

    def __init__(self) -> None:
        self.processed = 0
        self.failed = 0
        self.outbox = 0
        self.published = 0

    def drops(self, superseded: int, stopped: int = 0) -> Drops:
        """Return all drops, with those that the slot counts."""
        return Drops(superseded=superseded, failed=self.failed, outbox=self.outbox, stopped=stopped)


def camera_stats(counters: FrameCounters, frames: NewestFrames, camera: str) -> CameraStats:
    """Sum up one camera.

    captured = published + all drops + messages in the outbox + at most one frame waiting and one in work; after the end
    the last two are none.
    """
    captured, superseded, waiting = frames.counts(camera)
    return CameraStats(
        captured=captured,
        processed=counters.processed,
        published=counters.published,
        dropped=counters.drops(superseded, stopped=waiting if frames.closed else 0),
    )
