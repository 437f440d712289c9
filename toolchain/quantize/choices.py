"""One way to quantize a whole network, among those that scheme `auto` tries."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from edgemeta.toolchain.quantize.ranges import RangeRule

Form = Literal["multiplier", "table"]
FORMS: tuple[Form, ...] = ("multiplier", "table")


@dataclass(frozen=True, eq=False)
class Choice:
    """One way to quantize the whole network.

    ranges: rule for the ranges of tensors. form: requantization by per-channel multiplier or by per-channel shift and
    table. equalize: strength of the equalization of channels, applied first (`equalize.py`). feedback: weights are
    rounded with error feedback (`feedback.py`). shifts: real-valued corrections added to the bias of a block, per
    channel (`correct.py`).
    """

    ranges: RangeRule
    form: Form
    equalize: float = 0.0
    feedback: bool = False
    shifts: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """Short name for reports."""
        equalized = f", equalized {self.equalize:g}" if self.equalize else ""
        feedback = ", error feedback" if self.feedback else ""
        correction = ", bias corrected" if self.shifts else ""
        return f"{self.form}, {self.ranges}{equalized}{feedback}{correction}"
