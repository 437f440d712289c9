"""Frame messages as the service writes them, with known numbers."""

from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from edgemeta.cli.demo.tally import Arrival
from edgemeta.daemon.messages.events import EventMessage
from edgemeta.daemon.messages.records import (
    Box,
    Drops,
    FoundObject,
    FrameLatency,
    FrameMessage,
    LabelScore,
    ModelIdentity,
)

START = datetime(2026, 1, 1, tzinfo=timezone.utc)
NO_DROPS = Drops(superseded=0, failed=0, outbox=0, stopped=0)

FrameArrival = Callable[..., Arrival]


def sender(sequence: int, captured: datetime) -> dict[str, Any]:
    """The fields that every message about a frame of this camera has."""
    where = {"device": "demo", "boot": "0" * 32, "camera": "camera"}
    return {**where, "sequence": sequence, "captured": captured, "clock_synchronized": True}


@pytest.fixture
def frame_arrival() -> FrameArrival:
    """Make the arrival of frame `sequence`, captured at 10 frames a second, delivered 2 ms after its capture."""

    def make(sequence: int, label: str, inference: int = 80, topic: str = "edgemeta/demo/camera/frame") -> Arrival:
        captured = START + timedelta(seconds=sequence / 10)
        message = FrameMessage(
            **sender(sequence, captured),
            model=ModelIdentity(name="resnet8-cifar10", sha256="ab" * 32),
            backend="cpu",
            labels=[LabelScore(label=label, score=0.875), LabelScore(label="truck", score=0.125)],
            state=label,
            latency_us=FrameLatency(wait=20, preprocess=40, inference=inference, postprocess=10, total=150),
            dropped=NO_DROPS,
        )
        return Arrival(topic, message.model_dump_json().encode(), captured + timedelta(milliseconds=2))

    return make


@pytest.fixture
def event_arrival() -> FrameArrival:
    """Make the arrival of a change to `state` with frame `sequence`; the state before it had lasted 2.5 s."""

    def make(sequence: int, state: str | None, previous: str | None, lasted_s: float | None = 2.5) -> Arrival:
        message = EventMessage(**sender(sequence, START), state=state, previous=previous, score=None, lasted_s=lasted_s)
        return Arrival("edgemeta/demo/camera/event", message.model_dump_json().encode(), START)

    return make


@pytest.fixture
def objects_arrival() -> FrameArrival:
    """Make the arrival of frame `sequence` with these objects: label, score and box as fractions."""

    def make(sequence: int, *objects: tuple[str, float, Box]) -> Arrival:
        found = [
            FoundObject(label=label, score=score, box=(0, 0, 1, 1), box_relative=box, zones=[])
            for label, score, box in objects
        ]
        message = FrameMessage(
            **sender(sequence, START),
            model=ModelIdentity(name="yolox", sha256="cd" * 32),
            backend="cpu",
            labels=[],
            objects=found,
            state=None,
            counts=dict(Counter(label for label, _, _ in objects)),
            zones={},
            latency_us=FrameLatency(wait=20, preprocess=40, inference=9_000, postprocess=10, total=9_100),
            dropped=NO_DROPS,
        )
        return Arrival("edgemeta/demo/camera/frame", message.model_dump_json().encode(), START)

    return make
