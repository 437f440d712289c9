"""What a scheme outside of this room gives to the command `quantize`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from edgemeta.model.graph import Model
from edgemeta.toolchain.float_model.graph import FloatModel
from edgemeta.toolchain.quantize.calibration import Calibration
from edgemeta.toolchain.quantize.labelled import Measured
from edgemeta.toolchain.quantize.observer import Observer
from edgemeta.toolchain.quantize.stages import Stage


@dataclass(frozen=True)
class Made:
    """model: the integer network. validation: it and the float network on images held out. images: for ranges."""

    model: Model
    validation: Measured
    images: int


class Maker(Protocol):
    """A scheme with what it needs."""

    def make(
        self, model: FloatModel, calibration: Calibration | None, measuring: Sequence[Stage], observer: Observer
    ) -> Made:
        """The integer network of a float model. measuring: the stages that follow. Raises a ToolchainError."""
        ...
