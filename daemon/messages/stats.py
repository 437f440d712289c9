"""The statistics message, as records: counters and latencies of a service."""

from datetime import datetime
from typing import Literal

from pydantic import Field

from edgemeta.daemon.messages.records import Counts, Drops, Message, Part


class PictureStats(Part):
    """Published pictures of one camera."""

    due: int = Field(default=0, ge=0, description="Pictures that were due.")
    published: int = Field(
        default=0,
        ge=0,
        description="Those that the broker has acknowledged. The others were dropped, since there was no connection, a "
        "newer one replaced them, or the broker takes none so large; or they are on their way.",
    )


class CameraStats(Part):
    """Counters of one camera."""

    captured: int = Field(ge=0, description="Frames captured.")
    processed: int = Field(ge=0, description="Frames classified.")
    published: int = Field(ge=0, description="Frame messages acknowledged by the broker.")
    dropped: Drops = Field(description="Frames dropped, by reason.")
    withheld: int = Field(default=0, ge=0, description="Frames classified and not published, as configured.")
    unknown: int = Field(default=0, ge=0, description="Frames classified that show nothing the model knows.")
    missed: int = Field(
        default=0,
        ge=0,
        description="Frames that were due and not captured, because the service was late or overloaded. They have no "
        "number.",
    )
    fps: float = Field(default=0.0, ge=0, description="Frames classified per second over the period.")
    state: str | None = Field(
        default=None, description="The state after the newest frame; null while no label is certain."
    )
    score: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="Score of the newest frame's best label or object; null before the first frame, and without any.",
    )
    counts: Counts | None = Field(
        default=None,
        description="Detection and multi-label: how many of each label are present after the newest frame; null for "
        "other tasks.",
    )
    decoder: str | None = Field(
        default=None,
        description="What decoded the newest frame of a network stream: `software` or the device of `decode`; null "
        "before it, and for other sources.",
    )
    pictures: PictureStats = Field(default=PictureStats(), description="Pictures published, with `snapshots`.")


class StageStats(Part):
    """Latency of one stage over the period, in microseconds; percentiles by nearest rank."""

    count: int = Field(ge=0, description="Measurements in the period; without any the other fields are null.")
    p50: int | None = Field(ge=0, description="Median.")
    p90: int | None = Field(ge=0, description="90th percentile.")
    p99: int | None = Field(ge=0, description="99th percentile.")
    max: int | None = Field(ge=0, description="Maximum.")


class Stages(Part):
    """Latencies of the stages of a frame."""

    delay: StageStats = Field(
        description="From capture until the frame arrived: how much later than usual, by the stream's timestamps."
    )
    wait: StageStats = Field(description="From its arrival until the worker took the frame.")
    preprocess: StageStats = Field(
        description="Crop, resize, colour conversion and quantization; for a device that does this, the copy."
    )
    inference: StageStats = Field(description="Running the model.")
    postprocess: StageStats = Field(description="Scores, ranking and smoothing.")
    encode: StageStats = Field(description="Encoding the message as JSON.")
    publish: StageStats = Field(description="From encoding until the broker acknowledged the message.")
    total: StageStats = Field(description="From capture until the broker acknowledged the message.")


class BrokerFailures(Part):
    """Failures of the connection to the broker by kind."""

    unreachable: int = Field(ge=0, description="The broker could not be reached.")
    refused_login: int = Field(ge=0, description="The broker refused the user name or password.")
    bad_certificate: int = Field(
        ge=0, description="The broker's certificate is not trusted, or the broker does not accept ours."
    )
    client_id_taken: int = Field(ge=0, description="Another client used the same client id.")
    refused: int = Field(ge=0, description="The broker refused the connection for another reason.")
    lost: int = Field(ge=0, description="An accepted connection was lost.")
    unacknowledged: int = Field(ge=0, description="A connection was dropped because messages were not acknowledged.")


class BrokerStats(Part):
    """The connection to the broker."""

    connects: int = Field(ge=0, description="Number of accepted connections.")
    published: int = Field(ge=0, description="Messages of all kinds acknowledged by the broker.")
    refused: int = Field(
        ge=0, description="Messages refused by the broker for good, for example without permission; they are lost."
    )
    refuses: str | None = Field(
        default=None, description="Which kinds of messages it refuses now, and why; null while it accepts all."
    )
    missing: str | None = Field(
        default=None, description="What the broker does not offer, and what is lost thereby; null if nothing is."
    )
    failures: BrokerFailures = Field(description="Failures by kind.")
    last_failure: str | None = Field(description="Description of the last failure; null if there was none.")


class OutboxStats(Part):
    """Messages that wait for the broker."""

    place: Literal["disk", "memory"] = Field(description="Where they wait.")
    reason: str | None = Field(description="Reason why they are not on disk; null if they are.")
    waiting: int = Field(ge=0, description="Messages waiting now.")
    bytes: int = Field(ge=0, description="Size of the waiting messages.")
    replayed: int = Field(ge=0, description="Messages sent late, marked as `historical`.")
    dropped: int = Field(ge=0, description="Messages dropped because too many waited, oldest first.")
    expired: int = Field(ge=0, description="Messages dropped because they were too old.")
    damaged: int = Field(default=0, ge=0, description="Messages dropped because the disk had damaged them.")
    written_bytes: int = Field(
        default=0, ge=0, description="Bytes written to the disk for them since the start, in whole pages."
    )


class DeviceHealth(Part):
    """How the device itself is, as far as its kernel says."""

    load: float | None = Field(default=None, ge=0, description="Tasks that run or wait for a processor, over a minute.")
    cpu: float | None = Field(
        default=None, ge=0, le=1, description="Share of all processors in use over the period; null in the first."
    )
    memory: float | None = Field(default=None, ge=0, le=1, description="Share of the memory that is not available.")
    temperature_c: float | None = Field(default=None, description="Its hottest sensor, in degrees Celsius.")
    disk: float | None = Field(
        default=None, ge=0, le=1, description="Share of the disk with `data_folder` that is in use."
    )
    disk_free_bytes: int | None = Field(default=None, ge=0, description="Bytes that are free there.")
    throttled: bool | None = Field(
        default=None, description="Whether it runs slower for heat or want of power (Raspberry Pi, Jetson)."
    )


class StatsMessage(Message):
    """Counters and latencies, every `stats.interval` seconds and once at the end."""

    time: datetime = Field(description="When the counters were read, UTC.")
    clock_synchronized: bool = Field(description="Whether the device's clock was synchronized then.")
    uptime_s: float = Field(ge=0, description="Seconds since the service started.")
    period_s: float = Field(ge=0, description="Length of the period of the latencies in seconds.")
    cameras: dict[str, CameraStats] = Field(description="Counters by camera.")
    latency_us: Stages = Field(description="Latencies over the period.")
    broker: BrokerStats = Field(description="The connection to the broker.")
    outbox: OutboxStats = Field(description="Messages that wait for the broker.")
    health: DeviceHealth = Field(description="The device itself; null is what it does not say.")
