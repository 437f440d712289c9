"""How often a thing is measured: warm-ups first, then the median of so many samples."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Effort:
    """warm_ups samples are thrown away, the median of the next `runs` counts."""

    warm_ups: int
    runs: int

    def median_us(self, sample: Callable[[], float]) -> float:
        """Median of what `sample` gives, microseconds, to a hundredth."""
        for _ in range(self.warm_ups):
            sample()
        return round(float(np.median([sample() for _ in range(self.runs)])), 2)
