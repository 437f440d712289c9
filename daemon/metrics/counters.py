"""Per-camera frame counters since start-up. Each number has one writing thread, so none needs a lock."""

import time
from collections import Counter

from edgemeta.daemon.capture.latest_frames import LatestFrames
from edgemeta.daemon.messages.records import Drops, Fields
from edgemeta.daemon.messages.stats import CameraStats, PictureStats
from edgemeta.daemon.metrics.latency import StageLatencies
from edgemeta.daemon.mqtt.outbox.delivery import Delivery


class FrameCounters:
    """Counters of one camera in addition to those of `LatestFrames`, and state, score and decoder of its newest frame.

    appeared: by label, how many appeared: by how much its count grew, each time that it did. events: how many
    there were, by kind and by what an object did (empty for other kinds).

    The worker writes them, except `published`, `pictures_published` and `refused` (the MQTT thread), `outbox` (one
    thread at a time, under the outbox's lock), `missed` (the camera's thread) and `fps` (whoever measures it).
    """

    def __init__(self) -> None:
        self.processed = 0
        self.failed = 0
        self.withheld = 0
        self.unknown = 0
        self.outbox = 0
        self.refused = 0
        self.published = 0
        self.missed = 0
        self.pictures_due = 0
        self.pictures_published = 0
        self.state: str | None = None
        self.score: float | None = None
        self.counts: dict[str, int] | None = None
        self.decoder: str | None = None
        self.appeared: Counter[str] = Counter()
        self.events: Counter[tuple[str, str]] = Counter()
        self.fps = 0.0
        self._measured = 0

    def add_missed(self, number: int) -> None:
        """Count frames that were due and not captured."""
        self.missed += number

    def measure_rate(self, period_s: float) -> None:
        """Set `fps`: frames classified per second since the last call, `period_s` seconds ago."""
        processed = self.processed
        self.fps = round((processed - self._measured) / period_s, 2) if period_s > 0 else 0.0
        self._measured = processed

    def drops(self, superseded: int, stopped: int = 0) -> Fields:
        """Return all drops by reason, with those that `LatestFrames` counts."""
        return {
            "superseded": superseded,
            "failed": self.failed,
            "outbox": self.outbox,
            "refused": self.refused,
            "stopped": stopped,
        }


def camera_stats(counters: FrameCounters, frames: LatestFrames, camera: str) -> CameraStats:
    """Return the counters of one camera.

    captured = published + withheld + all drops + messages in the outbox + at most one frame waiting and one being
    processed; after the end the last two are zero.
    """
    captured, superseded, waiting = frames.counts(camera)
    return CameraStats(
        captured=captured,
        processed=counters.processed,
        published=counters.published,
        dropped=Drops(**counters.drops(superseded, stopped=waiting if frames.closed else 0)),
        withheld=counters.withheld,
        missed=counters.missed,
        unknown=counters.unknown,
        fps=counters.fps,
        state=counters.state,
        score=counters.score,
        counts=counters.counts,
        decoder=counters.decoder,
        pictures=PictureStats(due=counters.pictures_due, published=counters.pictures_published),
    )


class DeliveryCounters:
    """Counts messages by topic; ignores topics without frames or pictures, and messages of earlier boots."""

    def __init__(
        self, counters: dict[str, FrameCounters], latencies: StageLatencies, of_pictures: dict[str, FrameCounters]
    ) -> None:
        self._counters = counters
        self._of_pictures = of_pictures
        self._latencies = latencies

    def acknowledged(self, delivery: Delivery) -> None:
        """Count a message that the broker acknowledged and, if it was live, its latency."""
        counters = self._counters.get(delivery.message.topic)
        if counters is None or not delivery.this_boot:
            if (of_picture := self._of_pictures.get(delivery.message.topic)) is not None:
                of_picture.pictures_published += 1
            return
        counters.published += 1
        if not delivery.replayed:
            now = time.monotonic_ns()
            message = delivery.message
            self._latencies.add({"publish": now - message.made_ns, "total": now - message.captured_ns})

    def refused(self, delivery: Delivery) -> None:
        """Count a message that the broker refused for good."""
        counters = self._counters.get(delivery.message.topic)
        if counters is not None and delivery.this_boot:
            counters.refused += 1

    def dropped(self, topic: str, number: int) -> None:
        """Count messages of this boot that the outbox dropped."""
        if topic in self._counters:
            self._counters[topic].outbox += number
