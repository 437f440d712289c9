"""Statistics of a subscriber: counts, latencies and, if the true labels are known, the recognition rate."""

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

import numpy as np

from edgemeta.daemon.messages.events import EventKind, EventMessage
from edgemeta.daemon.messages.records import FoundObject, FrameLatency, FrameMessage, LabelScore, StatusMessage
from edgemeta.daemon.messages.service import InfoMessage
from edgemeta.daemon.messages.stats import StatsMessage

STAGES = (*FrameLatency.model_fields, "delivered")
"""The service's stages, and `delivered`: from the capture until the subscriber received the message."""

NOTHING_SURE = "nothing sure"
"""Shown in place of a label while no label has the votes (`state` is null)."""

KEPT = 100_000
"""Number of frames of which latencies are kept, so that memory is bounded."""

Truth = Callable[[int], str]
"""From the sequence number of a frame to its true label."""


@dataclass(frozen=True)
class Arrival:
    """One received MQTT message; `received` is UTC."""

    topic: str
    payload: bytes
    received: datetime


class Tally:
    """Sums over all messages of one demo, and the newest of each kind."""

    def __init__(self, truth: Truth | None = None) -> None:
        self.frames = 0
        self.labels: Counter[str] = Counter()
        self.shown: Counter[str] = Counter()
        self.right: Counter[str] = Counter()
        self.latencies: dict[str, deque[int]] = defaultdict(lambda: deque(maxlen=KEPT))
        self.availability: str | None = None
        self.frame: FrameMessage | None = None
        self.event: EventMessage | None = None
        self.changes = 0
        self.info: InfoMessage | None = None
        self.stats: StatsMessage | None = None
        self.status: StatusMessage | None = None
        self.truth = truth
        self._first: datetime | None = None
        self._last: datetime | None = None

    def add(self, arrival: Arrival) -> None:
        """Add one message. Raises pydantic's ValidationError if it does not match the schema."""
        match arrival.topic.rsplit("/", 1)[-1]:
            case "frame":
                self._add_frame(FrameMessage.model_validate_json(arrival.payload), arrival.received)
            case "event":
                self.event = EventMessage.model_validate_json(arrival.payload)
                self.changes += 1
            case "info":
                self.info = InfoMessage.model_validate_json(arrival.payload)
            case "stats":
                self.stats = StatsMessage.model_validate_json(arrival.payload)
            case "status":
                self.status = StatusMessage.model_validate_json(arrival.payload)
            case "availability":
                self.availability = arrival.payload.decode()

    def _add_frame(self, frame: FrameMessage, received: datetime) -> None:
        self.frame = frame
        self.frames += 1
        self._first, self._last = self._first or received, received
        named = found_in(frame)
        self.labels.update(each.label for each in (named[:1] if is_classification(frame) else named))
        self.labels.update(["unknown"] * frame.unknown)
        if self.truth is not None:
            shown = self.truth(frame.sequence)
            self.shown[shown] += 1
            looked_at = named[:1] if is_classification(frame) else named
            self.right[shown] += shown in [each.label for each in looked_at]
        for stage, micros in frame.latency_us:
            self.latencies[stage].append(micros)
        self.latencies["delivered"].append(round((received - frame.captured).total_seconds() * 1e6))

    @property
    def seconds(self) -> float:
        """Seconds from the first frame message to the last."""
        return (self._last - self._first).total_seconds() if self._first and self._last else 0.0

    @property
    def rate(self) -> float:
        """Frame messages per second."""
        return (self.frames - 1) / self.seconds if self.seconds else 0.0

    @property
    def dropped(self) -> int:
        """Frames dropped so far, for any reason, as counted by the service."""
        if self.stats is not None:
            return sum(sum(dict(camera.dropped).values()) for camera in self.stats.cameras.values())
        return sum(dict(self.frame.dropped).values()) if self.frame else 0

    @property
    def published(self) -> int:
        """Frame messages acknowledged by the broker, as counted by the service."""
        return sum(camera.published for camera in self.stats.cameras.values()) if self.stats else 0

    def recognized(self, label: str) -> float:
        """Share of the frames showing `label` that were given that label."""
        return self.right[label] / self.shown[label]

    @property
    def change(self) -> str | None:
        """Description of the newest change of state, None before the first."""
        event = self.event
        if event is not None and event.kind is not EventKind.STATE:
            zone = "" if event.zone is None else f" in {event.zone}"
            if event.object is not None and event.change is not None:
                line = "" if event.line is None else f" {event.line} to the {event.direction}"
                return f"{event.label} {event.object.id}: {event.change.value}{line or zone.replace(' in', '')}"
            return f"{event.label} {event.kind.value}{zone}: {event.count} after {event.previous_count}"
        if event is None or event.lasted_s is None:
            return None if event is None else _named(event)
        return f"{_named(event)} after {event.lasted_s:.1f} s of {event.previous or NOTHING_SURE}"

    def percentiles(self, stage: str, newest: int | None = None) -> tuple[int, int]:
        """Microseconds of p50 and p99, by nearest rank, over the KEPT or fewer `newest` frames."""
        measured = list(islice(reversed(self.latencies[stage]), newest))
        p50, p99 = np.percentile(measured, (50, 99), method="inverted_cdf")
        return int(p50), int(p99)

    def stages(self) -> Iterable[str]:
        """Stages that were measured."""
        return (stage for stage in STAGES if self.latencies[stage])

    def summary(self) -> dict[str, object]:
        """Return everything as one JSON object; docs/demo.md describes its keys."""
        stats, info, frame = self.stats, self.info, self.frame
        cameras = list(stats.cameras.values()) if stats else []
        return {
            "seconds": round(self.seconds, 3),
            "received": self.frames,
            "frames_per_second": round(self.rate, 2),
            "captured": sum(camera.captured for camera in cameras),
            "published": self.published,
            "lost": self.published - self.frames,
            "dropped": dict(cameras[0].dropped) if cameras else None,
            "labels": dict(self.labels.most_common()),
            "changes": self.changes,
            "recognition": self._recognition(),
            "latency_us": {
                stage: dict(zip(("p50", "p99"), self.percentiles(stage), strict=True)) for stage in self.stages()
            },
            "model": dict(info.model) if info else None,
            "backend": frame.backend if frame else None,
            "availability": self.availability,
        }

    def _recognition(self) -> dict[str, dict[str, float]] | None:
        if self.truth is None:
            return None
        return {
            label: {"frames": count, "right": self.right[label], "rate": round(self.recognized(label), 4)}
            for label, count in self.shown.items()
        }


def found_in(frame: FrameMessage) -> Sequence[LabelScore | FoundObject]:
    """Return what was found in a frame, best first: its objects or its labels."""
    return frame.labels if frame.objects is None else frame.objects


def is_classification(frame: FrameMessage) -> bool:
    """Whether a frame has one best label and a state, and no objects, counts or numbers."""
    return all(each is None for each in (frame.objects, frame.counts, frame.embedding, frame.outputs, frame.keypoints))


def outputs_in(frame: FrameMessage) -> list[str]:
    """Return a text for each raw output: its name and first numbers."""
    return [
        f"{name} {' '.join(f'{number:.4g}' for number in output.values[:4])}{' …' * (len(output.values) > 4)}"
        for name, output in (frame.outputs or {}).items()
    ]


def present_in(frame: FrameMessage) -> str | None:
    """Return the state after a frame: the label, or the counts as text; None where nothing is certain."""
    if frame.counts is None:
        return frame.state
    ordered = sorted(frame.counts.items(), key=lambda item: -item[1])
    return ", ".join(f"{count} {label}" for label, count in ordered) or "nothing"


def _named(event: EventMessage) -> str:
    return event.state or ("unknown" if event.unknown else NOTHING_SURE)
