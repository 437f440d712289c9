"""Every message the service sends, as records: the one definition behind what is sent, docs/schema and docs/mqtt.md.

Times are UTC (RFC 3339). Latencies are whole microseconds of a monotonic clock. Counters start with the service.
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

    model_config = ConfigDict(extra="forbid", frozen=True, json_schema_serialization_defaults_required=True)


class Drops(Part):
    """Frames that were captured and are not published, by reason."""

    superseded: int = Field(ge=0, description="A newer frame came before the network was free.")
    failed: int = Field(ge=0, description="The frame could not be prepared or the backend failed on it.")
    outbox: int = Field(ge=0, description="Its message waited for the broker and was dropped: too many, or too old.")
    stopped: int = Field(ge=0, description="The service stopped before it was the frame's turn.")


class ModelIdentity(Part):
    """Which network."""

    name: str = Field(description="The model's name.")
    sha256: str = Field(pattern="^[0-9a-f]{64}$", description="SHA-256 of the model file.")


class LabelScore(Part):
    """One label and how sure the network is."""

    label: str = Field(description="The label.")
    score: float = Field(
        ge=0, le=1, description="Softmax of the logits at the model's temperature; of a group the sum."
    )


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

    schema_version: Literal[2] = Field(default=SCHEMA_VERSION, description="Version of this format.")
    device: str = Field(description="The device.")
    boot: str = Field(pattern="^[0-9a-f]{32}$", description="Drawn at random each time the service starts.")
    id: int = Field(default=0, ge=0, description="Number of the message within `boot`; a repeat has the same.")


class FrameMessage(Message):
    """One classified frame.

    The frames of one camera and boot are numbered 1, 2, 3 ... at capture. Between two frame messages with numbers a < b
    exactly the b - a - 1 frames are missing by which `withheld` and the sum of `dropped` have grown, as long as
    `outbox` has not: the outbox drops its oldest messages, which the next frame to be made tells.
    """

    camera: str = Field(description="The camera.")
    sequence: int = Field(ge=1, description="Number of the captured frame.")
    captured: datetime = Field(description="When the frame was captured, UTC.")
    clock_synchronized: bool = Field(description="Whether the device's clock was disciplined then; else distrust UTC.")
    model: ModelIdentity = Field(description="The network that was asked.")
    backend: str = Field(description="What ran it.")
    labels: list[LabelScore] = Field(min_length=1, description="The most probable labels, best first.")
    state: str | None = Field(description="The state after this frame; null while nothing is sure.")
    latency_us: FrameLatency = Field(description="How long each step took.")
    dropped: Drops = Field(description="Frames with smaller numbers that were dropped so far.")
    withheld: int = Field(
        default=0,
        ge=0,
        description="Frames with smaller numbers that were classified and, as configured, not published.",
    )
    historical: bool = Field(default=False, description="Whether it waited for the broker and is told only now.")


class StateMessage(Message):
    """The state of a camera, sent when it changes and again every `publish.heartbeat_interval` seconds."""

    camera: str = Field(description="The camera.")
    state: str | None = Field(description="The label that enough of the last frames agree on; null: nothing is sure.")
    previous: str | None = Field(description="The one before it; null at first, or where nothing was sure.")
    score: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="The state's score in the frame it is told with; null while nothing is sure.",
    )
    sequence: int = Field(ge=1, description="Number of the frame that brought the change.")
    since: datetime = Field(description="When that frame was captured, UTC.")
    clock_synchronized: bool = Field(description="Whether the device's clock was disciplined then.")
    historical: bool = Field(default=False, description="Whether it waited for the broker and is told only now.")


class EventMessage(Message):
    """A change of state."""

    camera: str = Field(description="The camera.")
    state: str | None = Field(description="The state from now on; null: nothing is sure any more.")
    previous: str | None = Field(description="The state until now; null at first, or where nothing was sure.")
    score: float | None = Field(ge=0, le=1, description="The state's score in that frame; null while nothing is sure.")
    lasted_s: float | None = Field(ge=0, description="Seconds that `previous` had lasted; null at first.")
    sequence: int = Field(ge=1, description="Number of the frame that brought the change.")
    captured: datetime = Field(description="When that frame was captured, UTC.")
    clock_synchronized: bool = Field(description="Whether the device's clock was disciplined then.")
    historical: bool = Field(default=False, description="Whether it waited for the broker and is told only now.")


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
    withheld: int = Field(default=0, ge=0, description="Frames classified and, as configured, not published.")
    fps: float = Field(default=0.0, ge=0, description="Frames classified per second over the period.")
    state: str | None = Field(default=None, description="The state after the newest frame; null while nothing is sure.")
    score: float | None = Field(
        default=None, ge=0, le=1, description="Score of the newest frame's best label; null before there is one."
    )


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


class BrokerFailures(Part):
    """Failures of the connection to the broker by kind."""

    unreachable: int = Field(ge=0, description="Nobody answered at the address.")
    refused_login: int = Field(ge=0, description="The broker refused the user name or password.")
    bad_certificate: int = Field(ge=0, description="The broker's certificate is not trusted here, or ours not there.")
    client_id_taken: int = Field(ge=0, description="Another client used the same client id.")
    refused: int = Field(ge=0, description="The broker refused the connection for another reason.")
    lost: int = Field(ge=0, description="A connection broke.")
    unacknowledged: int = Field(
        ge=0, description="An accepted connection was given up because messages were not acknowledged."
    )


class BrokerStats(Part):
    """The connection to the broker."""

    connects: int = Field(ge=0, description="Times the broker accepted the connection.")
    published: int = Field(ge=0, description="Messages of all kinds the broker has taken.")
    refused: int = Field(ge=0, description="Messages the broker refused, for example for want of permission.")
    failures: BrokerFailures = Field(description="What went wrong, how often.")
    last_failure: str | None = Field(description="What went wrong last, in words; null where nothing did.")


class OutboxStats(Part):
    """The messages that wait for the broker."""

    place: Literal["disk", "memory"] = Field(description="Where they wait.")
    reason: str | None = Field(description="Why not on disk, in words; null where they are.")
    waiting: int = Field(ge=0, description="Messages waiting now.")
    bytes: int = Field(ge=0, description="Their size.")
    replayed: int = Field(ge=0, description="Messages told late, as `historical`.")
    dropped: int = Field(ge=0, description="Messages dropped because too many waited, the oldest first.")
    expired: int = Field(ge=0, description="Messages dropped because they were too old.")


class StatsMessage(Message):
    """Counts and latencies, every `stats.interval` seconds and once at the end."""

    time: datetime = Field(description="When this was counted, UTC.")
    clock_synchronized: bool = Field(description="Whether the device's clock was disciplined then.")
    uptime_s: float = Field(ge=0, description="Seconds since the service started.")
    period_s: float = Field(ge=0, description="Seconds the latencies stand for.")
    cameras: dict[str, CameraStats] = Field(description="Counts by camera.")
    latency_us: Stages = Field(description="Latencies over the period.")
    broker: BrokerStats = Field(description="The connection to the broker.")
    outbox: OutboxStats = Field(description="The messages that wait for the broker.")


class InfoMessage(Message):
    """What runs here; sent at every connect, and after a reload."""

    version: str = Field(description="Version of edgemeta.")
    started: datetime = Field(description="When the service started, UTC.")
    model: ModelIdentity = Field(description="The network; of the first camera where they have several.")
    labels: list[str] = Field(description="Every label that messages may name.")
    backend: str = Field(description="What runs it.")
    config_sha256: str = Field(pattern="^[0-9a-f]{64}$", description="SHA-256 of the config in effect.")
    cameras: list[str] = Field(description="The cameras.")
    models: dict[str, ModelIdentity] = Field(description="Each camera's network.")
    model_refused: str | None = Field(
        description="Reason why a model named by the config is not in use; null where all of them are."
    )


class SwapResult(str, Enum):
    """How a swap of models ended; the last two are no swaps, but tell which models serve without one."""

    SWAPPED = "swapped"
    ROLLED_BACK = "rolled_back"
    REFUSED = "refused"
    CANCELLED = "cancelled"
    SETTLED = "settled"
    FALLBACK = "fallback"


class ShadowResult(Part):
    """What came of classifying live frames with both networks."""

    frames: int = Field(ge=1, description="Frames that both classified.")
    same_label: float = Field(ge=0, le=1, description="Share of them that got the same first label.")
    before_us: int = Field(ge=0, description="Median microseconds to prepare and classify a frame, old network.")
    after_us: int = Field(ge=0, description="The same, new network, beside the old one's work.")


class ExchangedModel(Part):
    """One network for another."""

    cameras: list[str] = Field(description="The cameras concerned.")
    before: ModelIdentity = Field(description="The old network.")
    after: ModelIdentity = Field(description="The new network.")
    backend: str = Field(description="What runs the new one.")
    shadow: ShadowResult | None = Field(description="The shadow run; null where it did not end, or none was wanted.")
    served: int = Field(ge=0, description="Frames that the new network served before the swap ended.")


class SwapTimes(Part):
    """How long each step took, in microseconds; null where it was not reached."""

    verify: int | None = Field(default=None, ge=0, description="Reading, digest, signature, structure.")
    compile: int | None = Field(default=None, ge=0, description="Compiling.")
    warm_up: int | None = Field(default=None, ge=0, description="Warming up.")
    self_test: int | None = Field(default=None, ge=0, description="The self-test of the model file.")
    shadow: int | None = Field(default=None, ge=0, description="The shadow run.")
    trial: int | None = Field(default=None, ge=0, description="The exchange, until enough frames were served.")


class SwapMessage(Message):
    """How the last swap ended, successful or not, or which models serve without one."""

    time: datetime = Field(description="When it ended, UTC.")
    clock_synchronized: bool = Field(description="Whether the device's clock was disciplined then.")
    trigger: Literal["start", "file", "signal", "command"] = Field(description="What asked for it.")
    result: SwapResult = Field(
        description="swapped; rolled_back: the new network failed after the exchange, the old one serves again; "
        "refused: it did not come to the exchange; cancelled: something newer was asked for, or the service stopped; "
        "settled: the config's networks serve, what was told before is over; fallback: the service has started with "
        "networks that served before, because one that the config names cannot be used."
    )
    reason: str | None = Field(description="Reason why no swap was made, or why the previous models are in use.")
    models: list[ExchangedModel] = Field(description="Old and new networks; empty where the new one was not usable.")
    took_us: SwapTimes = Field(description="How long it took.")


class AnswerMessage(Message):
    """What came of a command."""

    verb: str = Field(description="The command.")
    ok: bool = Field(description="Whether it was carried out.")
    outcome: str = Field(description="What came of it, in words.")
    transaction: str | None = Field(description="The command's own `transaction`; null where it had none.")
