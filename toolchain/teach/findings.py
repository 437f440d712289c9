"""What the pictures that were held out say: how sure the network is, what confuses it, and what would help."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.layers import TensorType
from edgemeta.tasks.classification import scores
from edgemeta.toolchain.teach.pictures import Pictures

FEW = 20
"""Pictures of a class below which more are asked for."""
_SHOWN = 10
_Z = 1.96
_NEAR = 6
"""Greatest difference of a grey level, anywhere in two thumbnails, of pictures that count as nearly the same."""


@dataclass(frozen=True)
class Confusion:
    """A picture that was taken for another class. score: 0..1, of the class that it was taken for."""

    picture: str
    label: str
    taken_for: str
    score: float


@dataclass(frozen=True)
class Findings:
    """Shares are 0..1, of pictures held out, judged by the integer head.

    low, high: 95 % interval of the accuracy if the pictures are independent (Wilson). recall: by label. fewer: accuracy
    with half as many pictures. confusions: the surest first. alike: pairs of pictures of different classes that are
    nearly the same. warnings: sentences.
    """

    accuracy: float
    low: float
    high: float
    recall: Mapping[str, float]
    fewer: float
    confusions: tuple[Confusion, ...]
    alike: tuple[tuple[str, str], ...]
    warnings: tuple[str, ...]


def find(
    pictures: Pictures, logits: NDArray[np.int32], fewer: NDArray[np.int32], kind: TensorType, temperature: float
) -> Findings:
    """Make the findings of integer logits [N, labels]; fewer: those of heads that saw half as many pictures."""
    names, labels, y = pictures.names, pictures.labels, pictures.y
    said, right = logits.argmax(1), logits.argmax(1) == y
    shares = scores(logits, kind, temperature)
    order = sorted(np.flatnonzero(~right).tolist(), key=lambda i: (-shares[i, said[i]], i))
    confusions = tuple(Confusion(names[i], labels[y[i]], labels[said[i]], float(shares[i, said[i]])) for i in order)
    recall = {label: float(right[y == number].mean()) for number, label in enumerate(labels)}
    low, high = wilson(int(right.sum()), len(y))
    accuracy, less = float(right.mean()), float((fewer.argmax(1) == y).mean())
    alike = tuple((names[a], names[b]) for a, b in near_duplicates(y, pictures.thumbnails))
    warnings = _warnings(labels, pictures.counts, accuracy, less, len(alike))
    return Findings(accuracy, low, high, recall, less, confusions, alike, warnings)


def wilson(right: int, count: int) -> tuple[float, float]:
    """The 95 % score interval of a share (Wilson, 1927)."""
    share, z2 = right / count, _Z**2
    middle = (share + z2 / (2 * count)) / (1 + z2 / count)
    half = _Z / (1 + z2 / count) * math.sqrt(share * (1 - share) / count + z2 / (4 * count**2))
    return max(0.0, middle - half), min(1.0, middle + half)


def near_duplicates(y: NDArray[np.int64], thumbnails: NDArray[np.int16]) -> list[tuple[int, int]]:
    """Pairs of pictures of different classes whose thumbnails [N, H, W, 3] differ nowhere by more than _NEAR."""
    flat = thumbnails.reshape(len(y), -1)
    pairs = []
    for i in range(len(y)):
        others = np.flatnonzero(y[i + 1 :] != y[i]) + i + 1
        near = others[(np.abs(flat[others] - flat[i]) <= _NEAR).all(1)]
        pairs += [(i, int(j)) for j in near]
    return pairs


def _warnings(
    labels: tuple[str, ...], counts: NDArray[Any], accuracy: float, fewer: float, alike: int
) -> tuple[str, ...]:
    sentences = []
    few = {label: int(count) for label, count in zip(labels, counts, strict=True) if count < FEW}
    if few:
        named = ", ".join(f"{label} {FEW - count} more" for label, count in few.items())
        sentences.append(f"too few pictures, at least {FEW} of each class are wanted: {named}")
    gain = accuracy - fewer
    if accuracy < 1 and gain >= 0.01:
        sentences.append(
            f"twice as many pictures raised the accuracy from {fewer:.0%} to {accuracy:.0%}: another {counts.min()} of "
            f"each class may bring up to {min(gain / 2, 1 - accuracy):.0%} more"
        )
    if alike:
        sentences.append(f"{alike} pairs of pictures in different classes are nearly the same: is each in its folder?")
    return tuple(sentences)
