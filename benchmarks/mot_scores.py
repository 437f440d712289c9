"""How well objects were followed, by a truth with identities: CLEAR MOT (Bernardin and Stiefelhagen 2008)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from edgemeta.tasks.tracking.matching import WHOLE, best_pairs, overlaps

UNITS = 1000
"""Boxes are rounded to 1/UNITS of a pixel."""
LEAST = WHOLE // 2
"""A box is that of a person of the truth if they overlap by half."""


class Placed(NamedTuple):
    """An object in a frame: its identity, and its box x0, y0, x1, y1 in pixels."""

    id: int
    box: tuple[float, float, float, float]


@dataclass
class Scores:
    """Sums over all frames, and `mota`: 1 - (missed + false + switches) / persons of the truth."""

    persons: int = 0
    missed: int = 0
    false: int = 0
    switches: int = 0

    @property
    def mota(self) -> float:
        """Multiple object tracking accuracy."""
        return 1 - (self.missed + self.false + self.switches) / self.persons


def scores_of(truth: Mapping[int, Sequence[Placed]], frames: Sequence[Sequence[Placed]]) -> Scores:
    """Scores of the frames that the truth has, by number from 0.

    Who was with an object in the frame before stays with it while they overlap; the others are paired for the greatest
    sum of overlaps. A switch is a person who is with another object than when last with any.
    """
    scores, last = Scores(), dict[int, int]()
    for number, persons in sorted(truth.items()):
        found = frames[number]
        scores.persons += len(persons)
        values = overlaps(_boxes(persons), _boxes(found))
        ids = [each.id for each in found]
        pairs = {
            i: ids.index(last[person.id])
            for i, person in enumerate(persons)
            if last.get(person.id) in ids and values[i, ids.index(last[person.id])] >= LEAST
        }
        taken = set(pairs.values())
        rows = [i for i in range(len(persons)) if i not in pairs]
        columns = [j for j in range(len(found)) if j not in taken]
        pairs |= {rows[i]: columns[j] for i, j in best_pairs(values[np.ix_(rows, columns)], LEAST)}
        scores.missed += len(persons) - len(pairs)
        scores.false += len(found) - len(pairs)
        for i, j in pairs.items():
            scores.switches += last.get(persons[i].id, ids[j]) != ids[j]
            last[persons[i].id] = ids[j]
    return scores


def _boxes(placed: Sequence[Placed]) -> "np.ndarray[tuple[int, ...], np.dtype[np.int64]]":
    return np.rint(np.array([each.box for each in placed], np.float64).reshape(-1, 4) * UNITS).astype(np.int64)
