"""Command `model reject`: gives a classification its temperature and its rule of rejection, and measures them.

Two numbers are fitted to images held out of training: the threshold, and the temperature of the scores of images that
keep a label. The evidence, if it has outputs of its own, is learned before from other images: known ones, which may be
those of the training, and foreign ones. What is reported of the held-out images is cross-fitted: both numbers are
fitted to one half and measured on the other, both ways; those of the model are then fitted to all.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.callbacks import Report
from edgemeta.model.graph import Model
from edgemeta.model.self_test import with_self_test
from edgemeta.model.tasks import Classification, Rejection, task_name
from edgemeta.plugins.api import Batch
from edgemeta.plugins.preprocess import Preprocessor, make_preprocessor
from edgemeta.tasks.classification import evidence_of, logits_of, scores
from edgemeta.toolchain.data.apart import without_copies
from edgemeta.toolchain.data.dataset import Dataset
from edgemeta.toolchain.data.frames import ArrayFrames, Frames
from edgemeta.toolchain.errors import QuantizeError
from edgemeta.toolchain.evaluate.confidence import calibration_error, fit_temperature
from edgemeta.toolchain.evaluate.rejection import MOST_LOST, fit_threshold
from edgemeta.toolchain.quantize.run import integer_session
from edgemeta.toolchain.reject.evidence import features, with_evidence, with_means, without_rejection
from edgemeta.toolchain.reject.made_foreign import KINDS, make_foreign

MADE = 1000
"""Foreign pictures made of each kind."""
_BATCH = 50

Integers = NDArray[np.integer[Any]]


@dataclass(frozen=True)
class Rejected:
    """What a rule does to images.

    lost: share 0..1 of the held-out images that would be classified correctly and get no label. wrong: share of the
    wrongly classified that still get a label. calibration_error: of the scores of those with a label.
    plain_calibration_error: of all scores at temperature 1, without a rule. The four are cross-fitted on held_out
    images. foreign: share that gets a label of each kind of foreign images that took part in the fit. unseen: the same
    for foreign images that did not.
    """

    threshold: int
    temperature: float
    held_out: int
    lost: float
    wrong: float
    calibration_error: float
    plain_calibration_error: float
    foreign: Mapping[str, float]
    unseen: Mapping[str, float]


@dataclass(frozen=True)
class Measured:
    """A model's integers on images: logits [N, labels] and evidence [N]."""

    logits: Integers
    evidence: Integers


def reject(
    model: Model,
    held_out: Dataset,
    known: Dataset | None = None,
    foreign: Sequence[Frames] = (),
    unseen: Sequence[Frames] = (),
    most_lost: float = MOST_LOST,
    made: int = MADE,
    report: Report | None = None,
) -> tuple[Model, Rejected, Mapping[str, Measured]]:
    """The model with a rule and a temperature; what they do; and the integers of all images, by kind.

    held_out: images that took no part in training. known: images like those of the training; with them the evidence is
    learned, from these, foreign and made foreign images; held-out images among them are left out. Without, the greatest
    logit is the evidence. foreign: pictures that show none of the labels. unseen: the same, not used for the fit but
    measured. most_lost: greatest share of the held-out images that may lose a right label. made: how many foreign
    images are made of each kind. report: called with one sentence if known images are left out, or if no held-out image
    with a label is clearly misclassified. Raises QuantizeError, DataError, BackendError.
    """
    if not isinstance(model.task, Classification):
        raise QuantizeError(f"{model.name}: its task is {task_name(model.task)}, a rule of rejection is for classes")
    _check_labels(model, held_out)
    plain = without_rejection(model)
    strangers = {frames.source: frames for frames in foreign}
    if known is not None:
        known = _others(known, held_out, report)
        drawn = {kind: ArrayFrames(make_foreign(known.x, kind, made), kind) for kind in KINDS}
        strangers.update(drawn)
        plain = _learned(plain, ArrayFrames(known.x), list(strangers.values()))
    integers = {"held out": measure(plain, ArrayFrames(held_out.x))}
    integers |= {name: measure(plain, frames) for name, frames in strangers.items()}
    others = {frames.source: measure(plain, frames) for frames in unseen}
    kinds = {name: found.evidence for name, found in integers.items() if name != "held out"}
    pooled = np.concatenate([_resampled(each, made) for each in kinds.values()]) if kinds else None
    fitted = _fitted(plain, integers["held out"], held_out.y, pooled, most_lost, report)
    task = fitted.task
    assert isinstance(task, Classification)
    assert task.rejection is not None
    threshold = task.rejection.threshold
    found = Rejected(
        threshold,
        task.temperature,
        len(held_out),
        **_crossed(plain, integers["held out"], held_out.y, pooled, most_lost),
        foreign={name: float((each >= threshold).mean()) for name, each in kinds.items()},
        unseen={name: float((each.evidence >= threshold).mean()) for name, each in others.items()},
    )
    stated = {**asdict(found), "held_out_pixels_sha256": held_out.sha256()}
    finished = replace(fitted, provenance={**model.provenance, "rejection": _rounded(stated)})
    return with_self_test(finished), found, {**integers, **others}


def measure(model: Model, frames: Frames) -> Measured:
    """Logits and evidence of pictures, preprocessed as the service does it."""
    logits, evidence = [], []
    with closing(integer_session(model)) as session:
        for batch in batches(model, frames):
            outputs = session.run(batch)
            logits.append(logits_of(outputs).copy())
            evidence.append(evidence_of(outputs).copy())
    if not logits:
        raise QuantizeError(f"{frames.source}: no picture could be used, expected at least one")
    return Measured(np.concatenate(logits), np.concatenate(evidence))


def batches(model: Model, frames: Frames) -> Iterator[Batch]:
    """The pictures as inputs of the model, some at a time."""
    prepare: dict[tuple[int, ...], Preprocessor] = {}
    waiting: list[Batch] = []
    for frame in frames:
        if frame.shape not in prepare:
            prepare = {frame.shape: make_preprocessor(model, frame.shape)}
        waiting.append(prepare[frame.shape](frame).copy())
        if len(waiting) == _BATCH:
            yield _joined(waiting)
            waiting = []
    if waiting:
        yield _joined(waiting)


def _joined(inputs: Sequence[Batch]) -> Batch:
    batch: NDArray[Any] = np.concatenate(inputs)
    return batch


def _learned(model: Model, known: Frames, foreign: Sequence[Frames]) -> Model:
    """The model with an evidence that tells known images from foreign ones."""
    means = with_means(model, batches(model, known))

    def features_of(frames: Frames) -> NDArray[np.float64]:
        return np.concatenate(list(features(means, batches(model, frames)))).astype(np.float64)

    return with_evidence(means, features_of(known), [features_of(frames) for frames in foreign])


def _fitted(
    model: Model,
    found: Measured,
    y: Integers,
    foreign: Integers | None,
    most_lost: float,
    report: Report | None = None,
) -> Model:
    """The model with the threshold and the temperature for these held-out images."""
    task, kind = model.task, model.output_types[0]
    assert isinstance(task, Classification)
    right = found.logits.argmax(axis=1) == y
    threshold = fit_threshold(found.evidence, right, foreign, most_lost).threshold
    labelled = found.evidence >= threshold
    temperature = fit_temperature(found.logits[labelled], kind, y[labelled], report)
    outputs = () if task.rejection is None else task.rejection.outputs
    return replace(model, task=replace(task, temperature=temperature, rejection=Rejection(threshold, outputs)))


def _crossed(
    model: Model, found: Measured, y: Integers, foreign: Integers | None, most_lost: float
) -> dict[str, float]:
    """Fields of `Rejected`: fitted to one half of the held-out images and measured on the other, both ways."""
    kind = model.output_types[0]
    labelled, shares = np.zeros(len(y), np.bool_), np.zeros(found.logits.shape)
    for half in (np.arange(len(y)) % 2 == 0, np.arange(len(y)) % 2 == 1):
        other = Measured(found.logits[~half], found.evidence[~half])
        task = _fitted(model, other, y[~half], foreign, most_lost).task
        assert isinstance(task, Classification)
        assert task.rejection is not None
        labelled[half] = found.evidence[half] >= task.rejection.threshold
        shares[half] = scores(found.logits[half], kind, task.temperature)
    right = found.logits.argmax(axis=1) == y
    return {
        "lost": float((right & ~labelled).mean()),
        "wrong": float(labelled[~right].mean()) if not right.all() else 0.0,
        "calibration_error": calibration_error(shares[labelled], y[labelled]),
        "plain_calibration_error": calibration_error(scores(found.logits, kind), y),
    }


def _others(known: Dataset, held_out: Dataset, report: Report | None) -> Dataset:
    """The known images that are not held out."""
    others = without_copies(known, held_out)
    left_out = len(known) - len(others)
    if not len(others):
        raise QuantizeError(f"all {left_out:,} known images are held-out images, too, expected others")
    if left_out and report is not None:
        report(f"{left_out:,} of {len(known):,} known images are held out, and are not used to learn the evidence")
    return others


def _rounded(value: object) -> object:
    """Shares to four decimals, however deep they lie."""
    if isinstance(value, Mapping):
        return {key: _rounded(entry) for key, entry in value.items()}
    return round(value, 4) if isinstance(value, float) else value


def _resampled(evidence: Integers, count: int) -> Integers:
    """So many of these, evenly chosen, in order of size: so that each kind counts alike."""
    ordered: Integers = np.sort(evidence)[np.arange(count) * len(evidence) // count]
    return ordered


def _check_labels(model: Model, data: Dataset) -> None:
    if data.labels != model.labels:
        expected = ", ".join(model.labels)
        raise QuantizeError(f"the held-out images have the labels {', '.join(data.labels)}, expected {expected}")
