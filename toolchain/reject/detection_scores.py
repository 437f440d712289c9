"""Command `model calibrate`: makes the scores of a detection say how often its objects are right.

The score of an object is sigmoid(z), z being the logit of its label l. In its place comes sigmoid(a z + b + c[l]),
fitted by logistic regression to the objects that the model finds in pictures with boxes: right or wrong at an overlap
of one half. c is drawn to 0 (a normal prior), so that a label with few objects has the b of all. The model file holds
this as it is: of the last convolutions of classes, raw accumulators q with z = step[l] q, a multiplies the scale of the
weights, and (b + c[l]) / (a step[l]), rounded, is added to the integers of the bias. No other integer changes.

What it does not know: the score threshold becomes the least one, from the model's own on, at which at most a share of
foreign pictures, which show none of the labels, have an object.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.graph import Model
from edgemeta.model.layers import Layer, Weighted
from edgemeta.model.prove import prove
from edgemeta.model.self_test import with_self_test
from edgemeta.model.tasks import MAX_SCORE, Detection, task_name
from edgemeta.tasks.detection.objects import Detector
from edgemeta.tasks.numbers import Float64, sigmoid
from edgemeta.toolchain.data.boxed_images import BoxedImages
from edgemeta.toolchain.data.frames import Frames
from edgemeta.toolchain.errors import QuantizeError
from edgemeta.toolchain.evaluate.average_precision import WATCHED_SCORE, JudgedObjects, judged_objects
from edgemeta.toolchain.evaluate.detection import finder, least_scores, objects_in, objects_of
from edgemeta.toolchain.quantize.run import integer_session
from edgemeta.toolchain.quantize.scales import int32_bias
from edgemeta.toolchain.reject.reject import batches

FROM = 0.05
"""Objects that score less take no part in the fit: there are very many, and nobody asks for them."""
MOST_FOREIGN = 0.03
"""Greatest share of foreign pictures with an object, unless another one is asked for."""
BINS = 10
_SPREAD = 0.5
"""Standard deviation of the prior of c."""
_STEPS = 50


@dataclass(frozen=True, eq=False)
class ScoreMap:
    """sigmoid(slope z + offsets[l]) in place of sigmoid(z)."""

    slope: float
    offsets: Float64

    def scores(self, scores: Float64, classes: NDArray[np.int64]) -> Float64:
        """Scores [n] of objects of these labels [n]."""
        return sigmoid(self.slope * logit(scores) + self.offsets[classes])


@dataclass(frozen=True)
class Bin:
    """Objects whose scores lie in a tenth: how many, their mean score, and the share of right ones."""

    objects: int
    score: float
    right: float


@dataclass(frozen=True)
class Calibrated:
    """What was done.

    objects: how many were fitted to. bins: objects by their new score, of the half of the pictures that took no part
    in the fit; plain_bins: by the old one. error, plain_error: mean of |mean score - share of right ones|, weighted by
    objects. foreign: of each kind of foreign pictures the share with an object at the new threshold, fitted to them.
    """

    slope: float
    objects: int
    error: float
    plain_error: float
    bins: tuple[Bin, ...]
    plain_bins: tuple[Bin, ...]
    score_threshold: float
    foreign: Mapping[str, float]


def calibrate(
    model: Model,
    images: BoxedImages,
    foreign: Sequence[Frames] = (),
    most: float = MOST_FOREIGN,
    label_overlap: float | None = None,
) -> tuple[Model, Calibrated]:
    """The model with other scores and threshold, and what they are.

    images: took no part in training. foreign: pictures that show none of the labels. most: share of them with an
    object. label_overlap: of the detection; None: that of the model. Raises QuantizeError for a model whose scores are
    no sigmoid of one number, and if better scores are not more often right.
    """
    _require_plain(model)
    assert isinstance(model.task, Detection)
    label_overlap = label_overlap or model.task.label_overlap
    model = replace(model, task=replace(model.task, label_overlap=label_overlap))
    with closing(integer_session(model)) as session:
        found = objects_in(images, model, finder(model, session, WATCHED_SCORE), lambda *_: None)
    judged = judged_objects(found, images, same=label_overlap)
    fitted = fit_scores(judged, len(model.labels))
    crossed = _crossed(judged, len(model.labels))
    scored = with_scores(model, fitted)
    assert isinstance(scored.task, Detection)
    greatest = {each.source: greatest_scores(scored, each) for each in foreign}
    threshold = _threshold(scored.task.score_threshold, list(greatest.values()), most)
    bins, plain = score_bins(replace(judged, scores=crossed)), score_bins(judged)
    done = Calibrated(
        slope=fitted.slope,
        objects=int((judged.scores >= FROM).sum()),
        error=_error(bins),
        plain_error=_error(plain),
        bins=bins,
        plain_bins=plain,
        score_threshold=threshold,
        foreign={name: float((scores >= threshold).mean()) for name, scores in greatest.items()},
    )
    stated = {
        "held_out_sha256": images.sha256(),
        "slope": round(fitted.slope, 6),
        "offsets": [round(each, 6) for each in fitted.offsets.tolist()],
        "error": round(done.error, 6),
        "plain_error": round(done.plain_error, 6),
    }
    task = replace(scored.task, score_threshold=threshold)
    finished = replace(scored, task=task, provenance={**model.provenance, "scores": stated})
    prove(finished)
    return with_self_test(finished), done


def fit_scores(judged: JudgedObjects, labels: int) -> ScoreMap:
    """The most likely map, by Newton's method on the penalized log likelihood. Raises QuantizeError."""
    used = judged.scores >= FROM
    right, classes = judged.right[used].astype(np.float64), judged.classes[used]
    if len(right) == 0 or right.min() == right.max():
        raise QuantizeError(
            f"of {len(right)} objects that score {FROM:g} or more {int(right.sum())} are right, expected some right "
            "and some wrong ones"
        )
    rows = np.column_stack([logit(judged.scores[used]), np.ones(len(right)), np.eye(labels)[classes]])
    penalty = np.array([1e-6, 1e-6, *[1 / _SPREAD**2] * labels])
    weights = np.array([1.0, *np.zeros(labels + 1)])
    for _ in range(_STEPS):
        likely = sigmoid(rows @ weights)
        slope = rows.T @ (right - likely) - penalty * weights
        curvature = (rows * (likely * (1 - likely))[:, np.newaxis]).T @ rows + np.diag(penalty)
        step = np.linalg.solve(curvature, slope)
        weights = weights + np.clip(step, -1.0, 1.0)
    if not weights[0] > 0:
        raise QuantizeError(f"objects with better scores are not more often right (slope {weights[0]:.3g})")
    return ScoreMap(float(weights[0]), weights[1] + weights[2:])


def with_scores(model: Model, scores: ScoreMap) -> Model:
    """The model whose integers and steps give these scores; without self-test."""
    task = model.task
    assert isinstance(task, Detection)
    changed: dict[str, Layer] = {}
    for level in task.levels:
        layer = model.by_name[level.classes]
        assert isinstance(layer, Weighted)
        assert layer.bias is not None
        source = model.types[layer.sources[0]].scale
        steps = scores.slope * np.broadcast_to(model.steps(level.classes), scores.offsets.shape)
        changed[layer.name] = replace(
            layer,
            bias=int32_bias(layer.bias + scores.offsets / steps, layer.name),
            weights=replace(layer.coded, scale=steps / source),
            output=replace(layer.output, scale=source),
        )
    return replace(model, layers=tuple(changed.get(layer.name, layer) for layer in model.layers), self_test=None)


def greatest_scores(model: Model, frames: Frames, labels: Collection[str] | None = None) -> Float64:
    """The score [n] of the best object in each picture, preprocessed as the service does it; 0 where there is none.

    labels: those that count; None: all.
    """
    counted = model.labels if labels is None else labels
    find = Detector(model, least_scores(model.task), outlines=False)
    scores: list[float] = []
    with closing(integer_session(model)) as session:
        for batch in batches(model, frames):
            for objects in objects_of(find, session.run(batch)):
                scores.append(max((each.score for each in objects if each.label in counted), default=0.0))
    if not scores:
        raise QuantizeError(f"{frames.source}: no picture could be used, expected at least one")
    return np.array(scores)


def score_bins(judged: JudgedObjects) -> tuple[Bin, ...]:
    """Of the tenths from the second on that have objects."""
    tenths = np.minimum((judged.scores * BINS).astype(np.int64), BINS - 1)
    parts = [tenths == number for number in range(1, BINS)]
    return tuple(
        Bin(int(each.sum()), float(judged.scores[each].mean()), float(judged.right[each].mean()))
        for each in parts
        if each.any()
    )


def logit(scores: Float64) -> Float64:
    """The numbers [n] whose sigmoids are these scores [n], limited to 1e-6 .. 1 - 1e-6."""
    inside = np.clip(scores, 1e-6, 1 - 1e-6)
    numbers: Float64 = np.log(inside / (1 - inside))
    return numbers


def _require_plain(model: Model) -> None:
    task = model.task
    if not isinstance(task, Detection):
        raise QuantizeError(f"{model.name}: its task is {task_name(task)}, expected a detection")
    heads = [model.by_name[level.classes] for level in task.levels]
    gated = task.background or task.softmax or any(level.objectness is not None for level in task.levels)
    raw = all(isinstance(head, Weighted) and head.requantize is None and head.bias is not None for head in heads)
    widths = {head.output.shape[2] for head in heads}
    if gated or task.powers != (1.0, 1.0) or not raw or widths != {len(task.labels)}:
        raise QuantizeError(
            f"{model.name}: its scores are of more than one number each, expected the sigmoid of a number for each "
            "label, the raw output of a convolution, as `edgemeta train --task detection` makes them"
        )


def _crossed(judged: JudgedObjects, labels: int) -> Float64:
    """New scores of all objects, each fitted to the images of the other half."""
    scores = np.empty(len(judged.scores))
    for half in (0, 1):
        mine = judged.images % 2 == half
        parts = (part[~mine] for part in (judged.images, judged.classes, judged.scores, judged.right))
        fitted = fit_scores(JudgedObjects(*parts), labels)
        scores[mine] = fitted.scores(judged.scores[mine], judged.classes[mine])
    return scores


def _error(bins: Sequence[Bin]) -> float:
    total = sum(each.objects for each in bins)
    return sum(each.objects * abs(each.score - each.right) for each in bins) / total if total else 0.0


def _threshold(own: float, greatest: Sequence[Float64], most: float) -> float:
    """The least score from `own` on, in hundredths, at which at most `most` of the pictures of each kind have one."""
    steps = [number / 100 for number in range(1, 100) if own < number / 100]
    for threshold in (own, *steps):
        if all((scores >= threshold).mean() <= most for scores in greatest):
            return threshold
    return MAX_SCORE
