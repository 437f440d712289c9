"""Config of objects that are followed from frame to frame."""

from pydantic import Field

from edgemeta.daemon.config.objects import Score, Share
from edgemeta.daemon.config.section import Seconds, Section


class TrackingConfig(Section):
    """How detected objects are followed from frame to frame."""

    enabled: bool = Field(
        default=True,
        description="Give each detected object an identity: events and counts follow objects. false: each frame is "
        "counted for itself, with events of kind `appeared` and `gone`.",
    )
    low_score: Score = Field(
        default=0.1,
        description="Least score of a box that continues an object where it is expected, such as one half hidden. Such "
        "boxes are not in messages and begin no object.",
    )
    still_score: Share = Field(
        default=0.6,
        description="Least mean score of an object that has not moved since it was seen first: what stays and scores "
        "little is often a thing that only looks like one. Labels in `objects.scores` need no more than that. 0: what "
        "stays needs no more than what moves.",
    )
    max_gap: Seconds = Field(
        default=3.0, description="Seconds for which an object may be hidden; after that it has ended."
    )
    stopped_after: Seconds | None = Field(
        default=10.0, description="Seconds without moving after which an object has `stopped`; null: no such events."
    )
