"""The state of the whole service for the live page: one record, sent as JSON."""

from datetime import datetime
from typing import Literal

from pydantic import Field

from edgemeta.daemon.messages.broker_state import BrokerState
from edgemeta.daemon.messages.records import (
    CameraState,
    FoundKeypoint,
    FoundObject,
    FrameMessage,
    LabelCells,
    ModelIdentity,
    Part,
)
from edgemeta.daemon.messages.service import InfoMessage
from edgemeta.daemon.messages.stats import CameraStats, DeviceHealth, OutboxStats, Stages
from edgemeta.model.tasks import TaskName


class Point(Part):
    """The score of one frame."""

    time_ms: int = Field(description="When the frame was captured: UTC, milliseconds since 1970.")
    label: str | None = Field(description="The most probable label, or that of the best object; null without any.")
    score: float = Field(ge=0, le=1, description="Score of that label or object; 0 without any.")
    state: str | None = Field(description="The state after that frame; null while no label is certain.")


class CameraPage(Part):
    """One camera."""

    status: CameraState = Field(description="Status of the camera.")
    description: str = Field(description="Description of the status, with the error if there is one.")
    model: ModelIdentity = Field(description="The model that classifies its frames.")
    task: TaskName = Field(description="The model's task.")
    backend: str = Field(description="The backend that runs the model.")
    zones: dict[str, list[tuple[float, float]]] = Field(
        description="Corners of the camera's zones as fractions of the picture's width and height, by name."
    )
    lines: dict[str, list[tuple[float, float]]] = Field(
        default={}, description="Ends of the camera's lines, in the same way."
    )
    place_names: dict[str, str] = Field(default={}, description="Names for people of those of its zones that have one.")
    rate: float = Field(ge=0, description="Frames classified per second, over up to ten seconds.")
    age_s: float | None = Field(
        description="Seconds since the newest classified frame was captured; null before the first."
    )
    frame: FrameMessage | None = Field(description="The newest classified frame, as published; null before the first.")
    counts: CameraStats = Field(description="Frames since the start.")
    points: list[Point] = Field(description="Scores over time, oldest first, at most four per second.")


class FramePicture(Part):
    """A classified frame as JPEG, with what was found in this very frame."""

    sequence: int = Field(ge=1, description="Number of the captured frame.")
    objects: list[FoundObject] = Field(description="Its objects, best first; empty for other tasks than detection.")
    keypoints: list[FoundKeypoint] = Field(description="Its points; empty for other tasks than keypoints.")
    segments: LabelCells | None = Field(
        default=None, description="Which label is where; null for other tasks than segmentation."
    )
    jpeg: str = Field(description="The frame as JPEG, in Base64.")


class StagePage(Part):
    """The latencies of the last stats message."""

    period_s: float = Field(ge=0, description="Length of their period in seconds.")
    latency_us: Stages = Field(description="Latencies by stage.")


class BrokerPage(Part):
    """The connection to the broker."""

    address: str = Field(description="Host and port of the broker.")
    state: BrokerState = Field(description="State of the connection.")
    reason: str | None = Field(description="Description of the error; null if there is none.")
    refuses: str | None = Field(description="Which kinds of messages it refuses now, and why; null if none.")


class PageState(Part):
    """Everything that the page shows."""

    schema_version: Literal[2] = Field(default=2, description="Version of this format.")
    time: datetime = Field(description="When this was read, UTC.")
    clock_synchronized: bool = Field(
        description="Whether the device's clock is synchronized; if not, UTC may be wrong."
    )
    uptime_s: float = Field(ge=0, description="Seconds since the service started.")
    pictures: bool = Field(description="Whether pictures are shown (`web.show_frames`).")
    name: str = Field(default="", description="The device's name for people.")
    info: InfoMessage = Field(description="What runs on the device.")
    health: DeviceHealth = Field(default=DeviceHealth(), description="The device itself; null is what it does not say.")
    cameras: dict[str, CameraPage] = Field(description="The cameras by name.")
    stages: StagePage | None = Field(description="Latencies by stage; null before the first stats message.")
    broker: BrokerPage = Field(description="The connection to the broker.")
    outbox: OutboxStats = Field(description="Messages that wait for the broker.")
    wants_disk: bool = Field(description="Whether they are configured to wait on disk (`mqtt.outbox.max_disk_mb`).")
    swap: str | None = Field(description="Progress of a model swap; null if there is none.")
    swaps: dict[str, int] = Field(description="Model swaps since the start, by result.")
    hanging_threads: list[str] = Field(description="Description of each thread that hangs.")
