"""Events of a quantization: its stages, their progress, and what was tried."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from edgemeta.model.callbacks import Progress
from edgemeta.toolchain.progress import TrainingEvent

StageName = Literal[
    "images",
    "float network",
    "ranges",
    "trying",
    "refit",
    "distilling",
    "layers",
    "validation images",
    "held-out images",
    "test images",
]


@dataclass(frozen=True)
class Stage:
    """A stage and its work, about 1 for a run of the float network on one image."""

    name: StageName
    work: float


@dataclass(frozen=True)
class Agreement:
    """Agreement of an integer network with its float network on the calibration images.

    error: mean over the outputs of their relative errors. errors: of each output, the mean square difference relative
    to the variance of the float output; logits of a classification are compared after subtracting each image's mean.
    same_label: of a classification, the share 0..1 of images with the same greatest logit. same_objects: of a
    detection, F1 0..1 of the objects of both networks at all scores (`compare.Matches`); None if there are none.
    points_off: mean distance of the points of objects that are the same, as a share of the box's side; None without.
    objects_of_scores: how much the boxes at all scores agree, 0..1 (`Matches.quality_of_scores`).
    """

    choice: str
    error: float
    errors: tuple[float, ...]
    same_label: float | None = None
    same_objects: float | None = None
    points_off: float | None = None
    objects_of_scores: float | None = None

    @property
    def distance(self) -> tuple[float, float]:
        """Less is better: the objects of a detection that differ, then the error of the outputs."""
        return (0.0 if self.objects_of_scores is None else 1 - self.objects_of_scores, self.error)


class Events:
    """Ignores all events; subclasses override."""

    def planned(self, stages: Sequence[Stage]) -> None:
        """These stages will begin, in this order."""

    def begin(self, stage: StageName, detail: str = "") -> None:
        """A stage begins."""

    def progress(self, done: int, total: int) -> None:
        """So much of the stage that began last is done."""

    def stage(self, stage: StageName, detail: str = "") -> Progress:
        """Begin a stage; what is returned takes its progress."""
        self.begin(stage, detail)
        return self.progress

    def tried(self, agreement: Agreement) -> None:
        """A choice of scheme auto was built and compared."""

    def retrained(self, event: TrainingEvent) -> None:
        """The retraining of scheme incremental has got so far."""

    def left_out(self, sentence: str) -> None:
        """A picture or file is left out, or has something to be known; the sentence says which and why."""
