"""Every message the service sends, as records: the one definition behind what is sent, docs/schema and docs/mqtt.md.

Times are UTC (RFC 3339). Latencies are whole microseconds of a monotonic clock. Counters start with the service.
"""

from datetime import datetime
from enum import Enum
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

ONLINE = "online"
OFFLINE = "offline"


class Part(BaseModel):
    """A record inside a message."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Drops(Part):
    """Frames that were captured and are not published, by reason."""

    superseded: int = Field(ge=0, description="A newer frame came before the network was free.")
    failed: int = Field(ge=0, description="The frame could not be prepared or the backend failed on it.")
    broker_away: int = Field(ge=0, description="There was no connection to the broker.")
    queue_full: int = Field(ge=0, description="The broker took messages too slowly and the queue was full.")
    stopped: int = Field(ge=0, description="The service stopped before it was the frame's turn.")


class ModelIdentity(Part):
    """Which network."""

    name: str = Field(description="The model's name.")
    sha256: str = Field(pattern="^[0-9a-f]{64}$", description="SHA-256 of the model file.")


class LabelScore(Part):
    """One label and how sure the network is."""

    label: str = Field(description="The label.")
    score: float = Field(ge=0, le=1, description="Softmax of the logits.")


class FrameLatency(Part):
    """How long each step took for this frame, in microseconds."""

    wait: int = Field(ge=0, description="Captured, until the network's thread took it.")
    preprocess: int = Field(ge=0, description="Crop, resize, colour and quantization.")
    inference: int = Field(ge=0, description="The network.")
    postprocess: int = Field(ge=0, description="Scores, order and smoothing.")
    total: int = Field(ge=0, description="Captured, until this message was made.")


class Message(Part):
    """What every message carries.

    The schema version rises when a field changes its meaning or goes; a new field leaves it.
    """

    schema_version: Literal[1] = Field(default=1, description="Version of this format.")
    device: str = Field(description="The device.")
    boot: str = Field(pattern="^[0-9a-f]{32}$", description="Drawn at random each time the service starts.")


class FrameMessage(Message):
    """One classified frame.

    The frames of one camera and boot are numbered 1, 2, 3 ... at capture. Between two frame messages with numbers a < b
    exactly the b - a - 1 frames are missing by which the sum of `dropped` has grown.
    """

    camera: str = Field(description="The camera.")
    sequence: int = Field(ge=1, description="Number of the captured frame.")
    captured: datetime = Field(description="When the frame was captured, UTC.")
    clock_synchronized: bool = Field(description="Whether the device's clock was disciplined then; else distrust UTC.")
    model: ModelIdentity = Field(description="The network that was asked.")
    backend: str = Field(description="What ran it.")
    labels: list[LabelScore] = Field(min_length=1, description="The most probable labels, best first.")
    state: str | None = Field(description="The smoothed label after this frame; null until there is one.")
    latency_us: FrameLatency = Field(description="How long each step took.")
    dropped: Drops = Field(description="Frames with smaller numbers that were dropped so far.")


class StateMessage(Message):
    """The smoothed label of a camera, sent when it changes."""

    camera: str = Field(description="The camera.")
    state: str = Field(description="The smoothed label.")
    previous: str | None = Field(description="The one before it; null at first.")
    sequence: int = Field(ge=1, description="Number of the frame that brought the change.")
    since: datetime = Field(description="When that frame was captured, UTC.")
    clock_synchronized: bool = Field(description="Whether the device's clock was disciplined then.")


class CameraState(str, Enum):
    """Where a camera stands."""

    OPENING = "opening"
    RUNNING = "running"
    FAILED = "failed"
    ENDED = "ended"
    STOPPED = "stopped"


class StatusMessage(Message):
    """Where a camera stands, sent when it changes."""

    camera: str = Field(description="The camera.")
    status: CameraState = Field(
        description="opening: not yet tried; running: frames come; failed: no frames, tried again later; "
        "ended: the clip or folder is over; stopped: the service stopped."
    )
    reason: str | None = Field(description="What is wrong, in words; null where nothing is.")
    source: str = Field(description="Where frames come from, without its password.")
    since: datetime = Field(description="When it came to stand so, UTC.")
    failures: int = Field(ge=0, description="How often the source failed.")


class CameraStats(Part):
    """Counts of one camera."""

    captured: int = Field(ge=0, description="Frames captured.")
    processed: int = Field(ge=0, description="Frames classified.")
    published: int = Field(ge=0, description="Frame messages the broker has taken.")
    dropped: Drops = Field(description="Frames dropped, by reason.")


class StageStats(Part):
    """One step's latency over the period, in microseconds; percentiles by nearest rank."""

    count: int = Field(ge=0, description="Measurements in the period; the numbers below are null without any.")
    p50: int | None = Field(ge=0, description="Median.")
    p90: int | None = Field(ge=0, description="90th percentile.")
    p99: int | None = Field(ge=0, description="99th percentile.")
    max: int | None = Field(ge=0, description="Greatest.")


class Stages(Part):
    """The steps of a frame's way."""

    wait: StageStats = Field(description="Captured, until the network's thread took it.")
    preprocess: StageStats = Field(description="Crop, resize, colour and quantization.")
    inference: StageStats = Field(description="The network.")
    postprocess: StageStats = Field(description="Scores, order and smoothing.")
    encode: StageStats = Field(description="Making the message and its JSON.")
    publish: StageStats = Field(description="Message made, until the broker has taken it.")
    total: StageStats = Field(description="Captured, until the broker has taken the message.")


class BrokerStats(Part):
    """The connection to the broker."""

    connects: int = Field(ge=0, description="Times the broker accepted the connection.")
    published: int = Field(ge=0, description="Messages of all kinds the broker has taken.")
    refused: int = Field(ge=0, description="Messages the broker refused, for example for want of permission.")
    queued: int = Field(ge=0, description="Messages waiting for the broker now.")


class StatsMessage(Message):
    """Counts and latencies, every `stats.period` seconds and once at the end."""

    time: datetime = Field(description="When this was counted, UTC.")
    clock_synchronized: bool = Field(description="Whether the device's clock was disciplined then.")
    uptime_s: float = Field(ge=0, description="Seconds since the service started.")
    period_s: float = Field(ge=0, description="Seconds the latencies stand for.")
    cameras: dict[str, CameraStats] = Field(description="Counts by camera.")
    latency_us: Stages = Field(description="Latencies over the period.")
    broker: BrokerStats = Field(description="The connection to the broker.")


class InfoMessage(Message):
    """What runs here; sent at every connect."""

    version: str = Field(description="Version of edgemeta.")
    started: datetime = Field(description="When the service started, UTC.")
    model: ModelIdentity = Field(description="The network.")
    labels: list[str] = Field(description="Every label it knows.")
    backend: str = Field(description="What runs it.")
    config_sha256: str = Field(pattern="^[0-9a-f]{64}$", description="SHA-256 of the config in effect.")
    cameras: list[str] = Field(description="The cameras.")
