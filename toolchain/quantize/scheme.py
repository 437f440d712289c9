"""What a quantization scheme is, and what each gives to the command `quantize`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from edgemeta.model.callbacks import Progress
from edgemeta.model.graph import FloatModel, Model
from edgemeta.toolchain.data.boxed_images import BoxedImages
from edgemeta.toolchain.data.labelled_images import LabelledImages
from edgemeta.toolchain.quantize.events import Events, Stage
from edgemeta.toolchain.quantize.measure import (
    Agreed,
    BoxesMeasured,
    Measured,
    Unlabelled,
    measure,
    measure_agreement,
    measure_boxes,
)

TestImages: TypeAlias = LabelledImages | BoxedImages | Unlabelled
Tested: TypeAlias = Measured | BoxesMeasured | Agreed


@dataclass(frozen=True)
class SchemeResult:
    """What every scheme gives; a scheme's own result adds what it reports.

    model: the integer network. images: calibration images used, 0 where the scheme needs none.
    """

    model: Model
    images: int

    def measure(self, model: FloatModel, integer: Model, data: TestImages, progress: Progress) -> Tested:
        """Run the float and the integer network on test images. Raises BackendError.

        integer: this result's network, as it will be saved.
        """
        if isinstance(data, BoxedImages):
            return measure_boxes(model, integer, data, progress)
        if isinstance(data, Unlabelled):
            return measure_agreement(model, integer, data, progress)
        return measure(model, integer, data, progress)


class Scheme(Protocol):
    """A way to make an integer network of a float network, with its settings and its images."""

    def run(self, model: FloatModel, following: Sequence[Stage], events: Events) -> SchemeResult:
        """Return the integer network of a float model. following: stages after the scheme's. Raises ToolchainError."""
        ...
