"""Number of measurements: warm-ups first, then the median of a number of samples."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Effort:
    """warm_ups: samples that are discarded. runs: samples of which the median is the result."""

    warm_ups: int
    runs: int

    def median_us(self, sample: Callable[[], float]) -> float:
        """Median of the results of `sample`, microseconds, to a hundredth."""
        for _ in range(self.warm_ups):
            sample()
        return round(float(np.median([sample() for _ in range(self.runs)])), 2)
