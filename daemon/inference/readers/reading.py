"""What one frame shows, in the form of messages, and how a frame's picture was given to the model."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from edgemeta.daemon.messages.records import Fields
from edgemeta.model.preprocess import Placement, Rectangle
from edgemeta.plugins.api import Outputs


@dataclass(frozen=True)
class Picture:
    """The classified picture: its size in pixels, and the part of it in each image of the batch.

    tiles: the parts. placements: where the model's input lies in each part.
    """

    height: int
    width: int
    tiles: tuple[Rectangle, ...]
    placements: tuple[Placement, ...]


def no_score(_label: str) -> float | None:
    """The score of a label where there is none."""
    return None


class Reading(NamedTuple):
    """Fields of a frame message, by the model's task; see `FrameMessage`.

    unknown: the model's rule of rejection gives the frame no label. score_of: score of any label, None if there is
    none. faint: objects that score too little for a message, as `objects` has them, if objects are followed. size:
    width and height of the picture of a detection, in pixels.
    """

    labels: Sequence[Fields] = ()
    objects: list[Fields] | None = None
    embedding: list[float] | None = None
    keypoints: list[Fields] | None = None
    segments: Fields | None = None
    outputs: Fields | None = None
    unknown: bool = False
    score_of: Callable[[str], float | None] = no_score
    faint: Sequence[Fields] = ()
    size: tuple[int, int] = (0, 0)

    @property
    def best(self) -> Fields | None:
        """The best label or object; None without any."""
        if self.objects:
            return {"label": self.objects[0]["label"], "score": self.objects[0]["score"]}
        return self.labels[0] if self.labels else None


Reader: TypeAlias = Callable[[Outputs, Picture], Reading]
"""Reads the outputs [tiles, H, W, C] of one frame, of one model by the settings of one camera."""


def tiles_of(outputs: Outputs) -> list[Outputs]:
    """The outputs [H, W, C] of each tile, of outputs [tiles, H, W, C]."""
    return [tuple(output[number] for output in outputs) for number in range(len(outputs[0]))]
