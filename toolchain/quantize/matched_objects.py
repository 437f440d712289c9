"""How many objects of an integer detection are those of its float network."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from edgemeta.tasks.detection.objects import Object
from edgemeta.tasks.detection.suppress import overlaps

SAME_PLACE = 0.5
"""Least intersection over union of two objects that are the same."""


class Matches:
    """Counts of objects over images: of the float network, of the integer network, and those in both.

    An object of the integer network, best first, is that of the float network with its label that overlaps it most, by
    at least one half, and that no better one has taken.
    """

    def __init__(self) -> None:
        self.wanted = self.found = self.matched = 0

    def add(self, wanted: Sequence[Object], found: Sequence[Object]) -> None:
        """Count the objects of one image, each best first."""
        self.wanted += len(wanted)
        self.found += len(found)
        if not wanted or not found:
            return
        shared = overlaps(_corners(found), _corners(wanted))
        for number, each in enumerate(found):
            shared[number, [other.label != each.label for other in wanted]] = 0
            best = int(shared[number].argmax())
            if shared[number, best] >= SAME_PLACE:
                self.matched += 1
                shared[:, best] = 0

    @property
    def f1(self) -> float:
        """Twice the matched objects through all; 1 if neither network finds any."""
        every = self.wanted + self.found
        return 2 * self.matched / every if every else 1.0


def _corners(objects: Sequence[Object]) -> NDArray[np.float64]:
    return np.array([each.box for each in objects], np.float64)
