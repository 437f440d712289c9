"""Cross-validation: what the taught network says about pictures that it was not taught with.

The strength of the regularization, and whether mirrored copies help, are chosen inside each training part by holding
out its own folds in turn; so no held-out picture has a say in the network that judges it. The choice goes by the
squared error of the regression, in which every class counts the same: it is smoother than the number of right answers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, product, starmap

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.callbacks import Progress
from edgemeta.tasks.numbers import Float64
from edgemeta.toolchain.teach.head import Head, Linear, linear, quantized, step_for
from edgemeta.toolchain.teach.ridge import STRENGTHS, Coefficients, class_weights, solve
from edgemeta.toolchain.teach.table import Table

FOLDS = 5


@dataclass(frozen=True)
class Choice:
    """What is not fitted but chosen.

    strength: of the regularization. mirrored: whether mirrored copies take part in the training.
    """

    strength: float
    mirrored: bool


@dataclass(frozen=True, eq=False)
class Validated:
    """The network taught with all pictures, and its judgement by pictures held out.

    head: of all pictures. choice: made for it. logits: int32 [N, labels], of each picture by the head of the other
    folds, with the step of `head`. fewer: the same of heads that saw two folds of five, or None with too few pictures.
    """

    head: Head
    choice: Choice
    logits: NDArray[np.int32]
    fewer: NDArray[np.int32]


class Validation:
    """Fits on parts of a table. fold: of each picture. progress: of the fits."""

    def __init__(self, table: Table, fold: NDArray[np.int64], progress: Progress) -> None:
        self._table, self._fold, self._progress = table, fold, progress
        self._rows = table.standardized()
        self._products = self._rows @ self._rows.T
        self._errors: dict[tuple[frozenset[int], Choice, int], float] = {}
        mirrors = (True, False) if table.features.shape[1] > 1 else (False,)
        self.choices = tuple(starmap(Choice, product(STRENGTHS, mirrors)))

    def run(self) -> Validated:
        """All of it."""
        pairs = list(combinations(range(FOLDS), 2))
        for done, held in enumerate([*pairs, *((k,) for k in range(FOLDS))], 1):
            self._measure(frozenset(held))
            self._progress(done, len(pairs) + FOLDS)
        everything = frozenset(range(FOLDS))
        choice = self._best(frozenset(), everything)
        final = self._linear(frozenset(), choice)
        parts = [self._linear(frozenset({k}), self._best(frozenset({k}), everything - {k})) for k in range(FOLDS)]
        lesser = [self._linear(everything - {(k + 1) % FOLDS, (k + 2) % FOLDS}, choice) for k in range(FOLDS)]
        step = max(step_for(function) for function in (final, *parts))
        return Validated(quantized(final, step), choice, self._judged(parts, step), self._judged(lesser, step))

    def _measure(self, held: frozenset[int]) -> None:
        """Squared error on each fold held out, of heads trained on the others, for every choice."""
        for choice in self.choices:
            rows, coefficients = self._fit(held, choice)
            for fold in held:
                tested = np.flatnonzero(self._fold == fold)
                products = self._products[np.ix_(self._plain(tested), rows)]
                self._errors[held, choice, fold] = self._error(tested, products, coefficients)

    def _error(self, tested: NDArray[np.int64], products: Float64, coefficients: Coefficients) -> float:
        if not len(tested):
            return 0.0
        table = self._table
        logits = products @ coefficients.pictures + coefficients.bias
        targets = 2.0 * np.eye(table.labels)[table.y[tested]] - 1
        return float(class_weights(table.y, table.labels)[tested] @ ((logits - targets) ** 2).sum(1))

    def _plain(self, pictures: NDArray[np.int64]) -> NDArray[np.int64]:
        """Rows of the pictures as they are."""
        rows: NDArray[np.int64] = pictures * self._table.features.shape[1]
        return rows

    def _best(self, held: frozenset[int], others: frozenset[int]) -> Choice:
        """The choice of least error over the other folds, each held out beside `held`."""
        return min(self.choices, key=lambda choice: sum(self._errors[held | {k}, choice, k] for k in others))

    def _fit(self, held: frozenset[int], choice: Choice) -> tuple[NDArray[np.int64], Coefficients]:
        """Rows of the training part, and its coefficients."""
        table = self._table
        training = np.flatnonzero(~np.isin(self._fold, list(held)))
        rows = table.rows(training, mirrored=choice.mirrored)
        classes = table.y[rows // table.features.shape[1]]
        return rows, solve(self._products[np.ix_(rows, rows)], classes, table.labels, choice.strength)

    def _linear(self, held: frozenset[int], choice: Choice) -> Linear:
        rows, coefficients = self._fit(held, choice)
        return linear(coefficients, self._table, self._rows[rows])

    def _judged(self, parts: Sequence[Linear], step: float) -> NDArray[np.int32]:
        """Integer logits of every picture by the head of its fold."""
        logits = np.zeros((len(self._fold), self._table.labels), np.int32)
        for fold, function in enumerate(parts):
            tested = np.flatnonzero(self._fold == fold)
            logits[tested] = quantized(function, step).logits(self._table.features[tested, 0])
        return logits


def folds(y: NDArray[np.int64], thumbnails: NDArray[np.int16]) -> NDArray[np.int64]:
    """Fold 0 .. FOLDS - 1 of each picture, int64 [N]; the pictures of a class are in the order of time.

    Pictures of a fixed camera that were taken one after the other are nearly the same picture: one in the training part
    would give away its neighbour. So each class is cut, in the order of time (of the numbers in its file names), into
    FOLDS blocks, and fold k is the k-th block of every class. A cut is moved, by at most a quarter of a block, to where
    neighbouring pictures differ most: between two recordings rather than within one.
    """
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
