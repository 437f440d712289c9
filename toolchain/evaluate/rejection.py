"""Fits the threshold of a rejection rule to images held out of training, and to foreign ones where there are any.

The evidence of an image is the integer that a model's rule compares (`edgemeta.model.tasks.Rejection`).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgemeta.toolchain.errors import QuantizeError

MOST_LOST = 0.025
"""Greatest share of the held-out images that may lose a right label, unless another one is asked for."""

Evidence = NDArray[np.integer[Any]]
"""The evidence [N] of N images."""


@dataclass(frozen=True)
class FittedThreshold:
    """A threshold, and what it does to the images that it was fitted to.

    lost: share 0..1 of the held-out images that are classified correctly and rejected. held_out: their number.
    labelled: share 0..1 of the foreign images that still get a label; None without foreign images. foreign: their
    number.
    """

    threshold: int
    lost: float
    held_out: int
    labelled: float | None
    foreign: int


def fit_threshold(
    evidence: Evidence, right: NDArray[np.bool_], foreign: Evidence | None = None, most_lost: float = MOST_LOST
) -> FittedThreshold:
    """The threshold for held-out images with this evidence [N]; right [N]: whether they are classified correctly.

    Without foreign images it is the greatest one at which at most floor(most_lost N) images are right and below it.
    With the evidence [M] of foreign images it is at most that, and the sum of two shares is least: of the right
    held-out images that are below, and of the foreign images that are not. Where several thresholds have the least
    sum, it is the middle of the first such interval. Raises QuantizeError if no more than that many images are right.
    """
    known = np.sort(evidence[right].astype(np.int64))
    allowed = int(most_lost * len(evidence))
    if len(known) <= allowed:
        raise QuantizeError(
            f"no threshold of rejection can be fitted to {len(evidence)} held-out images of which {len(known)} are "
            f"classified correctly, expected more than {allowed} correct ones"
        )
    threshold = int(known[allowed])
    strangers = np.sort(np.empty(0, np.int64) if foreign is None else foreign.astype(np.int64))
    if len(strangers):
        threshold = _between(known, strangers, threshold)
    return FittedThreshold(
        threshold,
        lost=float((known < threshold).sum() / len(evidence)),
        held_out=len(evidence),
        labelled=float((strangers >= threshold).mean()) if len(strangers) else None,
        foreign=len(strangers),
    )


def fit_logit_threshold(
    logits: NDArray[np.integer[Any]],
    classes: NDArray[np.integer[Any]],
    foreign: NDArray[np.integer[Any]] | None = None,
    most_lost: float = MOST_LOST,
) -> FittedThreshold:
    """`fit_threshold` for a rule on the greatest logit: integer logits [N, labels] of held-out images of these classes.

    foreign: integer logits [M, labels] of foreign images.
    """
    strangers = None if foreign is None else foreign.max(axis=1)
    return fit_threshold(logits.max(axis=1), logits.argmax(axis=1) == classes, strangers, most_lost)


def _between(known: NDArray[np.int64], foreign: NDArray[np.int64], most: int) -> int:
    """The threshold <= most of the least sum of shares; both are sorted."""
    # The sum only changes from an evidence e to e + 1: between these steps every threshold does the same.
    every = np.unique(np.concatenate([known, foreign]))
    steps = np.append(every[:1], every + 1)
    steps = np.append(steps[steps < most], most)
    sums = np.searchsorted(known, steps) / len(known) + 1 - np.searchsorted(foreign, steps) / len(foreign)
    best = int(sums.argmin())
    begin = int(steps[best])
    end = min(most, int(steps[best + 1]) - 1) if best + 1 < len(steps) else begin
    return (begin + max(begin, end)) // 2
