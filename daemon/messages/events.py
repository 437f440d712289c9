"""The message about an event, as records: another state, objects that came or went, what one object did."""

from datetime import datetime
from enum import Enum
from typing import Literal

from pydantic import Field

from edgemeta.daemon.messages.records import (
    Box,
    CameraName,
    FrameOfChange,
    Historical,
    Message,
    Part,
    Point,
    PreviousState,
    SynchronizedThen,
)


class EventKind(str, Enum):
    """What happened."""

    STATE = "state"
    APPEARED = "appeared"
    GONE = "gone"
    OBJECT = "object"


class ObjectChange(str, Enum):
    """What an object did."""

    BEGIN = "begin"
    ENTERED = "entered"
    LEFT = "left"
    CROSSED = "crossed"
    LOITERING = "loitering"
    STOPPED = "stopped"
    END = "end"


class BestPicture(Part):
    """The frame that shows an object best."""

    captured: datetime = Field(description="When it was captured, UTC.")
    score: float = Field(ge=0, le=1, description="The object's score in it.")
    box: Box = Field(description="The object's box in it, as in frame messages.")
    box_relative: Box = Field(description="The same as fractions.")


class FollowedObject(Part):
    """An object that is followed from frame to frame."""

    id: int = Field(ge=1, description="Its number among the objects of the camera and `boot`; none is given twice.")
    label: str = Field(description="Its label: that with the greatest sum of scores when it was confirmed.")
    name: str | None = Field(
        default=None, description="The name that most of its frames gave it so far; null where most gave none."
    )
    score: float = Field(ge=0, le=1, description="Score of its newest box.")
    box: Box = Field(description="Its newest box, as in frame messages.")
    box_relative: Box = Field(description="The same as fractions.")
    zones: list[str] = Field(description="The zones in which it is, by the rule of `state`.")
    began: datetime = Field(description="When its first frame was captured, UTC.")
    stayed_s: float = Field(ge=0, description="Seconds from its first frame to its newest.")
    best: BestPicture = Field(
        description="The frame with the greatest product of its score and the shorter side of its box, so far; frames "
        "in which the box touches the edge of the picture count half."
    )
    path: list[Point] = Field(
        description="Where it stood (the middle of the lower edge of its box) as fractions of the picture, from its "
        "first frame to its newest, at most 32 points at equal numbers of frames."
    )


class EventMessage(Message):
    """A change of state, objects that appeared or are gone, or what one object did."""

    camera: CameraName
    kind: EventKind = Field(
        default=EventKind.STATE,
        description="state: another state (classification); appeared, gone: there are more or fewer of `label` than "
        "before (multi-label, segmentation, and a detection whose objects are not followed); object: what one of the "
        "objects of a detection did.",
    )
    change: ObjectChange | None = Field(
        default=None,
        description="What the object did: begin: it is confirmed; entered, left: a zone; crossed: a line; loitering: "
        "it has been in a zone for `loitering_s`; stopped: it has not moved for `tracking.stopped_after`; end: it is "
        "gone. Every begin has one end, every entered one left. Null for other kinds.",
    )
    object: FollowedObject | None = Field(default=None, description="The object; null for other kinds.")
    label: str | None = Field(
        default=None,
        description="The label of which there are more or fewer, or the object's label; null for `state`.",
    )
    zone: str | None = Field(
        default=None, description="The zone in which, or which the object entered or left; null: in the whole picture."
    )
    line: str | None = Field(default=None, description="The line that the object crossed; null otherwise.")
    direction: Literal["left", "right"] | None = Field(
        default=None,
        description="The side of the line to which it went, as seen from the line's first point to its second.",
    )
    count: int | None = Field(default=None, ge=0, description="How many there are now; null for `state` and `object`.")
    previous_count: int | None = Field(
        default=None, ge=0, description="How many there were; null for `state` and `object`."
    )
    state: str | None = Field(
        description="The new state; null: no label is certain any more, what is seen is unknown, or another kind."
    )
    unknown: bool = Field(
        default=False, description="Whether what is seen is unknown now; then `state` is null. False for other kinds."
    )
    previous: PreviousState
    score: float | None = Field(
        ge=0,
        le=1,
        description="Score of the new state in that frame, or the greatest of the label's objects, or that of the "
        "object's newest box; null while no label is certain, and for `gone`.",
    )
    lasted_s: float | None = Field(
        ge=0,
        description="Duration of `previous`, or of `previous_count`, in seconds, or how long the object has been in "
        "the zone (entered, left, loitering) or in the picture; null at first.",
    )
    sequence: FrameOfChange
    captured: datetime = Field(description="When that frame was captured, UTC.")
    clock_synchronized: SynchronizedThen
    historical: Historical = False
