"""Every message the service sends, as records: the definition of the messages, docs/schema and docs/mqtt.md.

Times are UTC (RFC 3339). Latencies are in microseconds, by the monotonic clock. Counters start with the service.
"""

from datetime import datetime
from enum import Enum
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

SCHEMA_VERSION: Literal[2] = 2

ONLINE = "online"
OFFLINE = "offline"


class Part(BaseModel):
    """A record inside a message. All its fields are sent, defaults included, so its schema requires them all."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        json_schema_serialization_defaults_required=True,
        defer_build=True,  # the service starts sooner: it sends dictionaries, and only tests validate
    )


class Drops(Part):
    """Frames that were captured and not published, by reason."""

    superseded: int = Field(ge=0, description="A newer frame arrived before the model was free.")
    failed: int = Field(ge=0, description="The frame could not be preprocessed, or the backend failed.")
    outbox: int = Field(
        ge=0, description="Its message waited for the broker and was dropped: too many waited, or it was too old."
    )
    stopped: int = Field(ge=0, description="The service stopped before the frame was processed.")


class ModelIdentity(Part):
    """A model."""

    name: str = Field(description="The model's name.")
    sha256: str = Field(pattern="^[0-9a-f]{64}$", description="SHA-256 of the model file.")


class LabelScore(Part):
    """One label with its score."""

    label: str = Field(description="The label.")
    score: float = Field(
        ge=0, le=1, description="Softmax of the logits at the model's temperature; for a group of labels the sum."
    )


class FrameLatency(Part):
    """Duration of each stage for this frame, in microseconds."""

    wait: int = Field(ge=0, description="From capture until the worker took the frame.")
    preprocess: int = Field(ge=0, description="Crop, resize, colour conversion and quantization.")
    inference: int = Field(ge=0, description="Running the model.")
    postprocess: int = Field(ge=0, description="Scores, ranking and smoothing.")
    total: int = Field(ge=0, description="From capture until this message was created.")


class Message(Part):
    """Fields of every message.

    The schema version is increased when a field is removed or its meaning changes, not for a new field.
    """

    schema_version: Literal[2] = Field(default=SCHEMA_VERSION, description="Version of this format.")
    device: str = Field(description="Name of the device.")
    boot: str = Field(pattern="^[0-9a-f]{32}$", description="Random identifier of this start of the service.")
    id: int = Field(default=0, ge=0, description="Number of the message within `boot`; the same when it is sent again.")


class FrameMessage(Message):
    """One classified frame.

    The frames of one camera and boot are numbered 1, 2, 3 ... at capture. Between two frame messages with numbers a < b
    exactly b - a - 1 frames are missing, and `withheld` and the sum of `dropped` have grown by that number, as long as
    `outbox` has not grown: the outbox drops its oldest messages, and the next frame message counts them.
    """

    camera: str = Field(description="Name of the camera.")
    sequence: int = Field(ge=1, description="Number of the captured frame.")
    captured: datetime = Field(description="When the frame was captured, UTC.")
    clock_synchronized: bool = Field(
        description="Whether the device's clock was synchronized then; if not, UTC may be wrong."
    )
    model: ModelIdentity = Field(description="The model that classified the frame.")
    backend: str = Field(description="The backend that ran the model.")
    labels: list[LabelScore] = Field(min_length=1, description="The most probable labels, best first.")
    state: str | None = Field(description="The state after this frame; null while no label is certain.")
    latency_us: FrameLatency = Field(description="Duration of each stage.")
    dropped: Drops = Field(description="Frames with smaller numbers that were dropped so far.")
    withheld: int = Field(
        default=0,
        ge=0,
        description="Frames with smaller numbers that were classified and not published, as configured.",
    )
    historical: bool = Field(default=False, description="Whether the message waited for the broker and is sent late.")


class StateMessage(Message):
    """The state of a camera, sent when it changes and again every `publish.heartbeat_interval` seconds."""

    camera: str = Field(description="Name of the camera.")
    state: str | None = Field(
        description="The label on which enough of the last frames agree; null: no label is certain."
    )
    previous: str | None = Field(description="The previous state; null at first, or if no label was certain.")
    score: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="Score of the state in the frame with which it is sent; null while no label is certain.",
    )
    sequence: int = Field(ge=1, description="Number of the frame that changed the state.")
    since: datetime = Field(description="When that frame was captured, UTC.")
    clock_synchronized: bool = Field(description="Whether the device's clock was synchronized then.")
    historical: bool = Field(default=False, description="Whether the message waited for the broker and is sent late.")


class EventMessage(Message):
    """A change of state."""

    camera: str = Field(description="Name of the camera.")
    state: str | None = Field(description="The new state; null: no label is certain any more.")
    previous: str | None = Field(description="The previous state; null at first, or if no label was certain.")
    score: float | None = Field(
        ge=0, le=1, description="Score of the new state in that frame; null while no label is certain."
    )
    lasted_s: float | None = Field(ge=0, description="Duration of `previous` in seconds; null at first.")
    sequence: int = Field(ge=1, description="Number of the frame that changed the state.")
    captured: datetime = Field(description="When that frame was captured, UTC.")
    clock_synchronized: bool = Field(description="Whether the device's clock was synchronized then.")
    historical: bool = Field(default=False, description="Whether the message waited for the broker and is sent late.")


class CameraState(str, Enum):
    """Status of a camera."""

    OPENING = "opening"
    RUNNING = "running"
    FAILED = "failed"
    ENDED = "ended"
    STOPPED = "stopped"


class StatusMessage(Message):
    """Status of a camera, sent when it changes."""

    camera: str = Field(description="Name of the camera.")
    status: CameraState = Field(
        description="opening: first attempt; running: frames arrive; failed: no frames, retried later; "
        "ended: end of the clip or folder; stopped: the service stopped."
    )
    reason: str | None = Field(description="Description of the error; null if there is none.")
    source: str = Field(description="Address of the source, without its password.")
    since: datetime = Field(description="When the status changed, UTC.")
    failures: int = Field(ge=0, description="Number of failures of the source.")


class CameraStats(Part):
    """Counters of one camera."""

    captured: int = Field(ge=0, description="Frames captured.")
    processed: int = Field(ge=0, description="Frames classified.")
    published: int = Field(ge=0, description="Frame messages acknowledged by the broker.")
    dropped: Drops = Field(description="Frames dropped, by reason.")
    withheld: int = Field(default=0, ge=0, description="Frames classified and not published, as configured.")
    fps: float = Field(default=0.0, ge=0, description="Frames classified per second over the period.")
    state: str | None = Field(
        default=None, description="The state after the newest frame; null while no label is certain."
    )
    score: float | None = Field(
        default=None, ge=0, le=1, description="Score of the newest frame's best label; null before the first frame."
    )


class StageStats(Part):
    """Latency of one stage over the period, in microseconds; percentiles by nearest rank."""

    count: int = Field(ge=0, description="Measurements in the period; without any the other fields are null.")
    p50: int | None = Field(ge=0, description="Median.")
    p90: int | None = Field(ge=0, description="90th percentile.")
    p99: int | None = Field(ge=0, description="99th percentile.")
    max: int | None = Field(ge=0, description="Maximum.")


class Stages(Part):
    """Latencies of the stages of a frame."""

    wait: StageStats = Field(description="From capture until the worker took the frame.")
    preprocess: StageStats = Field(description="Crop, resize, colour conversion and quantization.")
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
    refused: int = Field(ge=0, description="Messages refused by the broker, for example without permission.")
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


class InfoMessage(Message):
    """What runs on the device; sent at every connect and after a reload."""

    version: str = Field(description="Version of edgemeta.")
    started: datetime = Field(description="When the service started, UTC.")
    model: ModelIdentity = Field(description="The model; that of the first camera if they differ.")
    labels: list[str] = Field(description="All labels that messages may contain.")
    backend: str = Field(description="The backend that runs it.")
    config_sha256: str = Field(pattern="^[0-9a-f]{64}$", description="SHA-256 of the config in effect.")
    cameras: list[str] = Field(description="Names of the cameras.")
    models: dict[str, ModelIdentity] = Field(description="Model of each camera.")
    model_refused: str | None = Field(
        description="Reason why a model named by the config is not in use; null if all are."
    )


class SwapResult(str, Enum):
    """Result of a model swap; the last two report the models in use without a swap."""

    SWAPPED = "swapped"
    ROLLED_BACK = "rolled_back"
    REFUSED = "refused"
    CANCELLED = "cancelled"
    SETTLED = "settled"
    FALLBACK = "fallback"


class ShadowResult(Part):
    """Result of the shadow run, in which both models classify live frames."""

    frames: int = Field(ge=1, description="Frames classified by both models.")
    same_label: float = Field(ge=0, le=1, description="Share of them with the same best label.")
    before_us: int = Field(
        ge=0, description="Median time to preprocess and classify a frame, old model, in microseconds."
    )
    after_us: int = Field(ge=0, description="The same for the new model, while the old one is also running.")


class ExchangedModel(Part):
    """One model replaced by another."""

    cameras: list[str] = Field(description="The cameras with this model.")
    before: ModelIdentity = Field(description="The old model.")
    after: ModelIdentity = Field(description="The new model.")
    backend: str = Field(description="The backend that runs the new model.")
    shadow: ShadowResult | None = Field(
        description="Result of the shadow run; null if there was none or it did not finish."
    )
    served: int = Field(ge=0, description="Frames that the new model classified before the swap ended.")


class SwapTimes(Part):
    """Duration of each step in microseconds; null if it was not reached."""

    verify: int | None = Field(
        default=None, ge=0, description="Reading the file, and checking digest, signature and structure."
    )
    compile: int | None = Field(default=None, ge=0, description="Compiling.")
    warm_up: int | None = Field(default=None, ge=0, description="Warming up.")
    self_test: int | None = Field(default=None, ge=0, description="The self-test of the model file.")
    shadow: int | None = Field(default=None, ge=0, description="The shadow run.")
    trial: int | None = Field(
        default=None, ge=0, description="From the replacement until the new model had classified enough frames."
    )


class SwapMessage(Message):
    """Result of the last model swap, or the models in use without a swap."""

    time: datetime = Field(description="When it ended, UTC.")
    clock_synchronized: bool = Field(description="Whether the device's clock was synchronized then.")
    trigger: Literal["start", "file", "signal", "command"] = Field(description="What requested it.")
    result: SwapResult = Field(
        description="swapped: the new model is in use; rolled_back: the new model failed after replacement, the old "
        "one is in use again; refused: no model was replaced; cancelled: by a newer request, or the service stopped; "
        "settled: the models of the config are in use, earlier results no longer apply; fallback: the service has "
        "started with models used before, because one named by the config cannot be used."
    )
    reason: str | None = Field(description="Reason why no swap was made, or why the previous models are in use.")
    models: list[ExchangedModel] = Field(description="Old and new models; empty if the new one was not usable.")
    took_us: SwapTimes = Field(description="Duration of each step.")


class AnswerMessage(Message):
    """Result of a command."""

    verb: str = Field(description="The command.")
    ok: bool = Field(description="Whether it succeeded.")
    outcome: str = Field(description="Description of the result.")
    transaction: str | None = Field(description="The `transaction` of the command; null if it had none.")
