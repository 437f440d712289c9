"""The state of the whole service as the live page shows it: one record, sent as JSON."""

from datetime import datetime
from typing import Literal

from pydantic import Field

from edgemeta.daemon.messages.broker_state import BrokerState
from edgemeta.daemon.messages.records import (
    CameraState,
    CameraStats,
    FrameMessage,
    InfoMessage,
    ModelIdentity,
    OutboxStats,
    Part,
    Stages,
)


class Point(Part):
    """How sure the network was at one moment."""

    time_ms: int = Field(description="When the frame was captured: UTC, milliseconds since 1970.")
    label: str = Field(description="The most probable label.")
    score: float = Field(ge=0, le=1, description="Its score.")
    state: str | None = Field(description="The smoothed label then; null until there is one.")


class CameraPage(Part):
    """One camera."""

    status: CameraState = Field(description="Where it stands.")
    description: str = Field(description="The same in words, with what is wrong.")
    model: ModelIdentity = Field(description="Its network.")
    backend: str = Field(description="What runs it.")
    rate: float = Field(ge=0, description="Frames classified per second, over the last ten seconds at most.")
    age_s: float | None = Field(description="Seconds since the newest classified frame was captured; null without one.")
    frame: FrameMessage | None = Field(description="The newest classified frame, as published; null before the first.")
    counts: CameraStats = Field(description="Frames since the start.")
    points: list[Point] = Field(description="Confidence over time, oldest first, at most four per second.")


class StagePage(Part):
    """The latencies of the last stats message."""

    period_s: float = Field(ge=0, description="Seconds they stand for.")
    latency_us: Stages = Field(description="Latencies by stage.")


class BrokerPage(Part):
    """The connection to the broker."""

    address: str = Field(description="Its host and port.")
    state: BrokerState = Field(description="Where it stands.")
    reason: str | None = Field(description="What is wrong, in words; null where nothing is.")


class PageState(Part):
    """Everything that the page shows, at one moment."""

    schema_version: Literal[2] = Field(default=2, description="Version of this format.")
    time: datetime = Field(description="This moment, UTC.")
    clock_synchronized: bool = Field(description="Whether the device's clock is disciplined; else distrust UTC.")
    uptime_s: float = Field(ge=0, description="Seconds since the service started.")
    pictures: bool = Field(description="Whether pictures are shown (`web.show_frames`).")
    info: InfoMessage = Field(description="What runs here.")
    cameras: dict[str, CameraPage] = Field(description="The cameras by name.")
    stages: StagePage | None = Field(description="Latencies by stage; null before the first stats message.")
    broker: BrokerPage = Field(description="The connection to the broker.")
    outbox: OutboxStats = Field(description="The messages that wait for the broker.")
    wants_disk: bool = Field(description="Whether they shall wait on disk (`mqtt.outbox.max_disk_mb`).")
    swap: str | None = Field(description="How far a swap of models is, in words; null where none is in flight.")
    swaps: dict[str, int] = Field(description="Swaps of models since the start, by how they ended.")
    hanging_threads: list[str] = Field(description="Threads that hang, in words.")
