"""The messages about cameras and frames, as records: the definition of the messages, docs/schema and docs/mqtt.md.

Events are in `events.py`, those about the service in `service.py`, those of statistics in `stats.py`, those of model
swaps in `swaps.py`.
Times are UTC (RFC 3339). Latencies are in microseconds, by the monotonic clock. Counters start with the service.
"""

from datetime import datetime
from enum import Enum
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from edgemeta.tasks.detection.outlines import MAX_CORNERS

SCHEMA_VERSION: Literal[2] = 2

Fields: TypeAlias = dict[str, Any]
"""A record as a dict, all its fields in their order: not validated, which would take longer than its JSON."""

Counts: TypeAlias = dict[str, int]
"""How many of each label there are."""

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
    refused: int = Field(default=0, ge=0, description="The broker refused its message for good.")
    stopped: int = Field(ge=0, description="The service stopped before the frame was processed.")


class ModelIdentity(Part):
    """A model."""

    name: str = Field(description="The model's name.")
    sha256: str = Field(pattern="^[0-9a-f]{64}$", description="SHA-256 of the model file.")


class LabelScore(Part):
    """One label with its score."""

    label: str = Field(description="The label.")
    score: float = Field(
        ge=0,
        le=1,
        description="Classification: softmax of the logits at the model's temperature, for a group of labels the sum. "
        "Multi-label: sigmoid of the label's logit, for a group the greatest. Segmentation: the label's share of the "
        "picture.",
    )


Box = tuple[float, float, float, float]


Point = tuple[float, float]


class FoundKeypoint(Part):
    """One named point."""

    name: str = Field(description="Name of the point.")
    point: Point = Field(description="x and y in pixels of the classified picture, as boxes are.")
    point_relative: Point = Field(description="The same as fractions 0 to 1 of that picture's width and height.")
    score: float | None = Field(ge=0, le=1, description="How certain the model is; null where it has no scores.")

    @property
    def is_seen(self) -> bool:
        """Whether it is drawn: the score is at least one half, or there is none."""
        return self.score is None or self.score >= 0.5


class FoundObject(Part):
    """One object with its box."""

    id: int | None = Field(
        default=None,
        ge=1,
        description="The object's number among those of its camera and `boot`, the same in all frames and events; null "
        "while it is not confirmed, and where objects are not followed.",
    )
    label: str = Field(description="The label.")
    name: str | None = Field(
        default=None,
        description="The name that a model of `object_names` gives it in this frame; null where it knows none, and "
        "without such a model.",
    )
    score: float = Field(ge=0, le=1, description="How certain the model is.")
    box: Box = Field(
        description="Left, top, right and bottom edge in pixels of the classified picture: the frame, or the part of "
        "it that the camera's `region` names."
    )
    box_relative: Box = Field(description="The same as fractions 0 to 1 of that picture's width and height.")
    zones: list[str] = Field(description="The zones of the camera in which it stands: the middle of its lower edge.")
    keypoints: list[FoundKeypoint] | None = Field(
        default=None, description="Its points, in the order of the model; null where the model gives none."
    )
    outline_relative: list[Point] | None = Field(
        default=None,
        max_length=MAX_CORNERS,
        description="Corners of a polygon around it, clockwise, as fractions 0 to 1 of that picture's width and "
        "height: the largest part of its mask, empty where it has none; null where the model gives no masks.",
    )


MAX_SIDE = 64
"""Most rows and columns of a map of labels in a message."""


class LabelCells(Part):
    """A label for each cell of a coarse grid over the picture."""

    labels: list[str] = Field(description="The labels, to which the numbers in `runs` refer, from 0.")
    rows: int = Field(ge=1, le=MAX_SIDE, description="Rows of cells.")
    columns: int = Field(ge=1, le=MAX_SIDE, description="Columns of cells.")
    box_relative: Box = Field(
        description="Left, top, right and bottom edge of the cells as fractions 0 to 1 of the picture's width and "
        "height."
    )
    runs: list[int] = Field(
        description="The cells row by row: the number of a label, or -1 for none, and how many cells have it, "
        "alternately."
    )


class RawOutput(Part):
    """The numbers of one raw output."""

    shape: tuple[int, int, int] = Field(description="Rows, columns and channels.")
    values: list[float] = Field(
        description="All numbers in the order of rows, columns and channels, to six significant digits."
    )


class FrameLatency(Part):
    """Duration of each stage for this frame, in microseconds."""

    delay: int = Field(
        default=0,
        ge=0,
        description="From capture until the frame arrived: how much later than usual, by the stream's timestamps; 0 "
        "for sources without them.",
    )
    wait: int = Field(ge=0, description="From its arrival until the worker took the frame.")
    preprocess: int = Field(
        ge=0, description="Crop, resize, colour conversion and quantization; for a device that does this, the copy."
    )
    inference: int = Field(ge=0, description="Running the model.")
    postprocess: int = Field(ge=0, description="Scores, ranking and smoothing.")
    total: int = Field(ge=0, description="From capture until this message was created.")


CameraName = Annotated[str, Field(description="Name of the camera.")]
FrameOfChange = Annotated[int, Field(ge=1, description="Number of the frame that changed the state.")]
Historical = Annotated[bool, Field(description="Whether the message waited for the broker and is sent late.")]
PreviousState = Annotated[
    str | None, Field(description="The previous state; null at first, or if no label was certain.")
]
SynchronizedThen = Annotated[bool, Field(description="Whether the device's clock was synchronized then.")]
SynchronizedWhenSent = Annotated[
    bool,
    Field(
        description="Whether the device's clock was synchronized when this was sent; if it is set later, sent again."
    ),
]


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
    `outbox` and `refused` have not grown: those were dropped when their messages existed, and the next one counts them.
    """

    camera: CameraName
    sequence: int = Field(ge=1, description="Number of the captured frame.")
    captured: datetime = Field(description="When the frame was captured, UTC.")
    clock_synchronized: bool = Field(
        description="Whether the device's clock was synchronized then; if not, UTC may be wrong."
    )
    model: ModelIdentity = Field(description="The model that classified the frame.")
    backend: str = Field(description="The backend that ran the model.")
    labels: list[LabelScore] = Field(
        description="Classification: the most probable labels, best first; none if the frame is `unknown`. "
        "Multi-label and segmentation: the labels that are present. Empty for other tasks."
    )
    unknown: bool = Field(
        default=False,
        description="Classification: whether the model's rule of rejection says that the frame shows nothing it knows. "
        "False for other tasks, and for models without such a rule.",
    )
    objects: list[FoundObject] | None = Field(
        default=None, description="Detection: the objects, best first. Null for other tasks."
    )
    embedding: list[float] | None = Field(
        default=None, description="Embedding: a vector of length 1. Null for other tasks."
    )
    keypoints: list[FoundKeypoint] | None = Field(
        default=None, description="Keypoints: the points, in the order of the model. Null for other tasks."
    )
    segments: LabelCells | None = Field(
        default=None, description="Segmentation: which label is where. Null for other tasks."
    )
    outputs: dict[str, RawOutput] | None = Field(
        default=None, description="Raw: the numbers of each output, by its name. Null for other tasks."
    )
    state: str | None = Field(
        description="Classification: the state after this frame, null while no label is certain or what is seen is "
        "unknown. Null for other tasks."
    )
    counts: Counts | None = Field(
        default=None,
        description="Detection and multi-label: how many of each label are present after this frame, by the rule of "
        "`state`; labels without any are left out. Null for other tasks, and before the first frames agree.",
    )
    zones: dict[str, Counts] | None = Field(
        default=None, description="Detection: the same for each zone of the camera. Null for other tasks."
    )
    latency_us: FrameLatency = Field(description="Duration of each stage.")
    dropped: Drops = Field(description="Frames with smaller numbers that were dropped so far.")
    withheld: int = Field(
        default=0,
        ge=0,
        description="Frames with smaller numbers that were classified and not published, as configured.",
    )
    historical: Historical = False


class StateMessage(Message):
    """The state of a camera, sent when it changes and again every `publish.heartbeat_interval` seconds."""

    camera: CameraName
    state: str | None = Field(
        description="The label on which enough of the last frames agree; null: no label is certain, what is seen is "
        "unknown, or the model's task is no classification."
    )
    unknown: bool = Field(
        default=False, description="Whether enough of the last frames are unknown; then `state` is null."
    )
    counts: Counts | None = Field(
        default=None,
        description="Detection and multi-label: how many of each label are present, as enough of the last frames "
        "agree; labels without any are left out. Null for other tasks.",
    )
    zones: dict[str, Counts] | None = Field(
        default=None, description="Detection: the same for each zone of the camera. Null for other tasks."
    )
    previous: PreviousState
    score: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="Score of the state in the frame with which it is sent; null while no label is certain, and if "
        "that frame is unknown.",
    )
    sequence: FrameOfChange
    since: datetime = Field(description="When that frame was captured, UTC.")
    clock_synchronized: SynchronizedThen
    historical: Historical = False


class CameraState(str, Enum):
    """Status of a camera."""

    OPENING = "opening"
    RUNNING = "running"
    FROZEN = "frozen"
    BLACK = "black"
    DELAYED = "delayed"
    FAILED = "failed"
    ENDED = "ended"
    DISABLED = "disabled"
    STOPPED = "stopped"

    @property
    def delivers(self) -> bool:
        """Whether frames arrive."""
        return self in (CameraState.RUNNING, CameraState.FROZEN, CameraState.BLACK, CameraState.DELAYED)

    @property
    def sees(self) -> bool:
        """Whether its frames show what happens, if only later."""
        return self in (CameraState.RUNNING, CameraState.DELAYED)


class StatusMessage(Message):
    """Status of a camera, sent when it changes."""

    camera: CameraName
    status: CameraState = Field(
        description="opening: first attempt; running: frames arrive; frozen: frames arrive, but the picture does not "
        "change; black: the picture is black; delayed: they arrive late; failed: no frames, retried later; "
        "ended: end of the clip or folder; disabled: by the config or the command `set`; stopped: the service stopped."
    )
    reason: str | None = Field(description="Description of the problem; null if there is none.")
    source: str = Field(description="Address of the source: of a URL scheme, host and port, of a file its path.")
    since: datetime = Field(description="When the status changed, UTC.")
    clock_synchronized: SynchronizedWhenSent
    failures: int = Field(ge=0, description="Number of failures of the source.")
    problem: bool = Field(
        description="Whether there has been a `reason` for 3 s or longer, or was one until less than 3 s ago: a camera "
        "that drops for moments does not flap."
    )
    damaged: int = Field(
        default=0, ge=0, description="Damaged frames and errors of the decoder so far, as far as the source tells."
    )


class MotionMessage(Message):
    """Whether there is motion before a camera, sent when that changes."""

    camera: CameraName
    motion: bool = Field(description="Whether enough of the picture has changed within the last `motion.off_after` s.")
    since: datetime = Field(description="When the frame that changed this was captured, UTC.")
    clock_synchronized: SynchronizedWhenSent
