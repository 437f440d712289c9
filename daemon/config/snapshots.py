"""Config of the pictures that are published."""

from typing import Annotated

from pydantic import Field

from edgemeta.daemon.config.section import Section

SHORTEST, LONGEST = 0.2, 86400.0
"""Seconds between two pictures."""


class SnapshotsConfig(Section):
    """Pictures as JPEG: of a camera from time to time, and of what an event is about."""

    interval: Annotated[float, Field(ge=SHORTEST, le=LONGEST, allow_inf_nan=False)] | None = Field(
        default=None,
        description="Seconds between two pictures on `<camera>/snapshot`, as far as frames come; null: none.",
    )
    events: bool = Field(
        default=False,
        description="Publish on `<camera>/crop` what an event is about, once a second on average: the best picture of "
        "its object so far, or the whole picture where there are no objects.",
    )
    retain: bool = Field(default=False, description="Have the broker keep the last picture of each topic.")
    boxes: bool = Field(default=False, description="Draw boxes, labels and scores into the pictures of cameras.")
    max_side: int = Field(
        default=960, ge=64, le=7680, description="Most pixels of the longer side; larger pictures are scaled down."
    )
    max_bytes: int = Field(
        default=100_000,
        ge=2_000,
        le=10_000_000,
        description="Most bytes of a picture. Where it has more, or more than the broker takes, quality and then size "
        "are lowered; a picture that does not fit at 64 pixels is left out.",
    )
    quality: int = Field(default=80, ge=30, le=95, description="Quality of the JPEG at most, 30 to 95.")
