"""Who is told what happens during a quantization."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Agreement:
    """Agreement of an integer network with its float network on the calibration images.

    error: mean over the outputs of their relative errors. errors: of each output, the mean square difference relative
    to the variance of the float output; logits of a classification are compared after subtracting each image's mean.
    same_label: share 0..1 of images with the same greatest logit; None for other networks.
    """

    choice: str
    error: float
    errors: tuple[float, ...]
    same_label: float | None


class Observer:
    """Is told nothing; a subclass overrides what it wants to hear of."""

    def progress(self, stage: str, done: int, total: int) -> None:
        """So much of a stage is done; 1 is the first of `total`."""

    def tried(self, agreement: Agreement) -> None:
        """A choice of scheme auto was built and compared."""

    def damaged(self, sentence: str) -> None:
        """A picture is left out; the sentence says which and why."""
