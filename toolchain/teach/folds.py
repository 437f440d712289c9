"""Which pictures are held out together.

Pictures of a fixed camera that were taken one after the other are nearly the same picture: one in the training part
would give away its neighbour. So each class is cut, in the order of time (of the numbers in its file names), into FOLDS
blocks, and fold k is the k-th block of every class. A cut is moved, by at most a quarter of a block, to where
neighbouring pictures differ most: between two recordings rather than within one.
"""

import numpy as np
from numpy.typing import NDArray

FOLDS = 5


def folds(y: NDArray[np.int64], thumbnails: NDArray[np.int16]) -> NDArray[np.int64]:
    """Fold 0 .. FOLDS - 1 of each picture, int64 [N]; the pictures of a class are in the order of time."""
    result = np.empty(len(y), np.int64)
    for label in np.unique(y):
        members = np.flatnonzero(y == label)
        steps = np.abs(np.diff(thumbnails[members], axis=0)).mean(axis=(1, 2, 3))
        result[members] = np.searchsorted(_cuts(len(members), steps), np.arange(len(members)), side="right")
    return result


def _cuts(count: int, steps: NDArray[np.float64]) -> list[int]:
    """First members of blocks 1 .. FOLDS - 1; steps [count - 1]: how much a picture differs from the one before."""
    room = count // (4 * FOLDS)
    cuts = []
    for block in range(1, FOLDS):
        middle = block * count // FOLDS
        if not 0 < middle < count:
            cuts.append(middle)
            continue
        candidates = range(max(1, middle - room), min(count - 1, middle + room) + 1)
        cuts.append(max(candidates, key=lambda at: (steps[at - 1], -abs(at - middle))))
    return cuts
