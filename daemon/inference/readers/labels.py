"""Label names in messages: the model's own, or the aliases that the config gives them."""

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgemeta.daemon.inference.readers.settings import CameraSettings
from edgemeta.model.graph import Model
from edgemeta.model.layers import TensorType
from edgemeta.model.tasks import Classification, Detection, Raw
from edgemeta.tasks.classification import FrameScores, rank, scores

FEW = 32
"""Labels up to which Python sorts faster than NumPy is called."""


class LabelMap:
    """Maps a model's labels to the names in messages; labels with the same name count as one label.

    aliases: names by label of the model. names: each name once, in the order of the model's labels.
    """

    def __init__(self, model: Model, aliases: Mapping[str, str]) -> None:
        assert isinstance(model.task, Classification)
        named = [aliases.get(label, label) for label in model.task.labels]
        self.names = label_names(model, aliases)
        kind, temperature = model.output_types[0], model.task.temperature
        self._scores = (
            FrameScores(kind, temperature) if kind.hi - kind.lo < 256 else partial(_scores, kind, temperature)
        )
        self._groups = None
        if len(self.names) < len(named):
            self._groups = np.array([self.names.index(name) for name in named])

    def scores(self, logits: NDArray[Any]) -> NDArray[np.float64]:
        """Score of each name for the logits [labels] of one image; of a group, the sum of its labels' scores."""
        own = self._scores(logits)
        if self._groups is None:
            return own
        summed: NDArray[np.float64] = np.bincount(self._groups, own, len(self.names)).astype(np.float64)
        return summed

    def rank(self, logits: NDArray[Any], named: NDArray[np.float64], k: int) -> list[int]:
        """Indices [k] into `names` of the best, best first, lower ones at a tie. logits: [labels]; named: their scores.

        Without groups the integer logits are compared, so that distinct logits stay distinct.
        """
        if self._groups is None:
            return rank(logits, k).tolist() if len(logits) > FEW else _ranked(logits.tolist(), k)
        best: list[int] = np.argsort(-named, kind="stable")[:k].tolist()
        return best


def _scores(kind: TensorType, temperature: float, logits: NDArray[Any]) -> NDArray[np.float64]:
    return scores(logits, kind, temperature)


def _ranked(logits: list[int], k: int) -> list[int]:
    """As `rank` of one image: equal logits by index."""
    return sorted(range(len(logits)), key=logits.__getitem__, reverse=True)[:k]


def label_names(model: Model, aliases: Mapping[str, str]) -> tuple[str, ...]:
    """Names of a model's labels in messages, each once, in the order of the labels; aliases by label."""
    return tuple(dict.fromkeys(aliases.get(label, label) for label in model.labels))


def reported_labels(model: Model, settings: CameraSettings) -> tuple[str, ...]:
    """Names that messages of a camera may contain: of a detection, those that the config wants."""
    names = label_names(model, settings.labels)
    if not isinstance(model.task, Detection) or settings.objects.labels is None:
        return names
    return tuple(name for name in names if name in settings.objects.labels)


LISTED = 10
"""Most labels of a model that get entities and series of their own without being named in the config."""


def listed_labels(model: Model, settings: CameraSettings) -> tuple[str, ...]:
    """Labels that get values of their own in Home Assistant and in the metrics.

    Those that `objects.labels` names, or all if there are at most LISTED; of a classification all. None otherwise: many
    models know a label for every thing there is.
    """
    names = reported_labels(model, settings)
    named = isinstance(model.task, Detection) and settings.objects.labels is not None
    return names if named or len(names) <= LISTED or isinstance(model.task, Classification) else ()


def listed_numbers(model: Model) -> dict[str, int]:
    """How many numbers each raw output has, if there are at most LISTED in all; otherwise, and of other tasks, none."""
    if not isinstance(model.task, Raw):
        return {}
    counts = [math.prod(kind.shape) for kind in model.output_types]
    return dict(zip(model.task.names, counts, strict=True)) if sum(counts) <= LISTED else {}


def unknown_labels(aliases: Mapping[str, str], models: list[Model]) -> list[str]:
    """Labels that the config has aliases for and that no model has."""
    known = {label for model in models for label in model.labels}
    return [label for label in aliases if label not in known]
