"""The live page's panel for collecting and teaching: its state as one record, and the requests of its buttons."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from edgemeta.daemon.messages.records import Part

CameraName = Annotated[str, Field(max_length=64)]
LabelText = Annotated[str, Field(max_length=200)]
PictureId = Annotated[str, Field(pattern="^[0-9a-f]{16}$")]

MOST_DISCARDED = 100
"""Most pictures of one request to throw away."""


class LabelPage(Part):
    """One label."""

    label: str = Field(description="The label.")
    key: str = Field(description="Its place in the address of its pictures.")
    pictures: int = Field(ge=0, description="Number of its pictures.")


class CameraCollection(Part):
    """The collected pictures of one camera."""

    labels: list[LabelPage] = Field(description="Its labels, sorted.")
    collecting: str | None = Field(description="The label of frames being kept or written; null for none.")
    kept: int = Field(ge=0, description="Pictures kept since the button was pressed last.")
    waiting: int = Field(ge=0, description="Frames that wait to be written.")
    skipped: int = Field(ge=0, description="Frames skipped since then because the disk was slow.")
    problem: str | None = Field(description="What ended the collecting; null for nothing.")


class ConfusingPicture(Part):
    """A picture that the new network names wrongly when it is taught without it."""

    id: PictureId = Field(description="The picture.")
    label: str = Field(description="The label that it was collected under.")
    taken_for: str | None = Field(description="The label that the network gives it; null for none.")


class TeachingPage(Part):
    """The last run of `edgemeta teach`."""

    camera: str = Field(description="The camera whose pictures are used.")
    state: Literal["running", "done", "failed"] = Field(description="How far it is.")
    seconds: float = Field(ge=0, description="How long it runs, or took.")
    step: str = Field(description="What it does now, in its own words; empty when unknown.")
    reason: str | None = Field(description="Why nothing was taught; null otherwise.")
    model: str | None = Field(description="File name of the new model; null without one.")
    accuracy: float | None = Field(description="Share of held-out pictures that are named rightly; null without.")
    interval: tuple[float, float] | None = Field(description="Its 95 % interval, if the pictures are independent.")
    pictures: int | None = Field(description="Number of pictures that were used; null without a result.")
    warnings: list[str] = Field(description="What makes the result unsure.")
    confusing: list[ConfusingPicture] = Field(description="Pictures that confuse the network.")


class UsePage(Part):
    """The last use of a taught model."""

    camera: str = Field(description="The camera that it is for.")
    state: Literal["running", "done", "failed"] = Field(description="Whether it is in use now.")
    model: str = Field(description="File name of the model.")
    message: str = Field(description="What came of it, in one sentence.")
    line: str = Field(description="What to write into the config so that the model stays in use after a restart.")


class CollectionState(Part):
    """Everything that the panel shows."""

    schema_version: Literal[1] = Field(default=1, description="Version of this format.")
    unavailable: str | None = Field(description="Why nothing can be collected here; null if it can.")
    device: str = Field(description="The device's name.")
    folder: str = Field(description="Folder of the pictures, with one for each camera; empty where there is none.")
    max_pictures: int = Field(ge=0, description="Most pictures that are kept (`collect.max_pictures`).")
    max_mb: int = Field(ge=0, description="Most megabytes that are kept (`collect.max_mb`).")
    pictures: int = Field(ge=0, description="Number of pictures of all cameras.")
    bytes: int = Field(ge=0, description="Their bytes.")
    cameras: dict[str, CameraCollection] = Field(description="The cameras by name.")
    teaching: TeachingPage | None = Field(description="The last teaching; null before the first.")
    use: UsePage | None = Field(description="The last use of a taught model; null before the first.")


class PictureRow(Part):
    """A picture in a list."""

    id: PictureId = Field(description="The picture's place in its address.")
    captured: str | None = Field(description="When it was captured, UTC; null if its name has no time.")


class PicturePage(Part):
    """One page of a label's pictures, newest first."""

    label: str = Field(description="The label.")
    page: int = Field(ge=1, description="Number of this page.")
    pages: int = Field(ge=1, description="Number of pages.")
    pictures: list[PictureRow] = Field(description="The pictures of this page.")


class PanelRequest(BaseModel):
    """A request of a button, as JSON."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, hide_input_in_errors=True)

    camera: CameraName


class HoldRequest(PanelRequest):
    """Keep frames for a moment, or end it. first: the button was just pressed."""

    label: LabelText
    hold: bool
    first: bool = False


class DiscardRequest(PanelRequest):
    """Throw pictures away."""

    pictures: Annotated[list[PictureId], Field(min_length=1, max_length=MOST_DISCARDED)]


class RenameRequest(PanelRequest):
    """Give a label another name."""

    label: LabelText
    name: LabelText
