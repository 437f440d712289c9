"""Who is told what happens during a quantization."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Agreement:
    """Agreement of an integer network with its float network on the calibration images.

    error: mean over the outputs of their relative errors. errors: of each output, the mean square difference relative
    to the variance of the float output; logits of a classification are compared after subtracting each image's mean.
    same_label: of a classification, the share 0..1 of images with the same greatest logit. same_objects: of a
    detection, F1 0..1 of the objects of both networks (`matched_objects.py`); None if there are none.
    """

    choice: str
    error: float
    errors: tuple[float, ...]
    same_label: float | None = None
    same_objects: float | None = None

    @property
    def distance(self) -> tuple[float, float]:
        """Less is better: the objects of a detection that differ, then the error of the outputs."""
        return (0.0 if self.same_objects is None else 1 - self.same_objects, self.error)


class Observer:
    """Is told nothing; a subclass overrides what it wants to hear of."""

    def progress(self, stage: str, done: int, total: int) -> None:
        """So much of a stage is done; 1 is the first of `total`."""

    def tried(self, agreement: Agreement) -> None:
        """A choice of scheme auto was built and compared."""

    def left_out(self, sentence: str) -> None:
        """A picture or file is left out, or has something to be known; the sentence says which and why."""
