"""`eval` and `verify`: accuracy and exactness of a model on a backend."""

import hashlib
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from edgemeta.cli.options import (
    any_model_argument,
    backend_options,
    data_option,
    json_of,
    load_model,
    model_argument,
    open_session,
    remark,
    report,
)
from edgemeta.cli.precision import precision_lines, precision_values
from edgemeta.cli.progress import progress_bar
from edgemeta.model.callbacks import Progress
from edgemeta.model.errors import EdgemetaError
from edgemeta.model.float_file import is_float_model, load_float_model
from edgemeta.model.graph import FloatModel, Model
from edgemeta.model.tasks import Classification, Detection, Task, task_name
from edgemeta.model.zoo import find
from edgemeta.plugins.api import Batch, Outputs, Session
from edgemeta.plugins.measure import verify as count_mismatches
from edgemeta.plugins.preprocess import make_preprocessor
from edgemeta.tasks.classification import unknown
from edgemeta.toolchain.data.boxed_images import BoxedImages, is_boxed
from edgemeta.toolchain.data.boxes.opened import BoxedFrames, open_boxed_images
from edgemeta.toolchain.data.dataset import NUMBERS, is_dataset, load_dataset
from edgemeta.toolchain.data.frames import ArrayFrames, FolderFrames, Frames
from edgemeta.toolchain.data.labelled_images import LabelledImages, open_images
from edgemeta.toolchain.evaluate.average_precision import Precision
from edgemeta.toolchain.evaluate.classification import Evaluation, evaluate_float
from edgemeta.toolchain.evaluate.classification import evaluate as evaluate_integers
from edgemeta.toolchain.evaluate.detection import evaluate_detector, evaluate_float_detector

_BATCH = 100
_SHAPES = 64
"""Frame shapes whose preprocessors are kept."""
_SHOWN_CLASSES = 20


@click.command("eval", short_help="Measure accuracy on labelled images, or precision on boxes.")
@any_model_argument
@data_option
@backend_options
@json_of(
    "top1, calibration_error, recall.LABEL.percent, images, sha256; with a rule of rejection rejections "
    "(rejected, lost, labelled_top1); of a detection map50, map, labels.LABEL.ap50, ap, boxes. All in percent"
)
def evaluate(
    model_name: str, data_path: str, backend: str, threads: int | None, isa: str | None, as_json: bool
) -> None:
    """Measure a classification's accuracy, or a detection's mean average precision, in percent.

    Classification: top-1, the expected calibration error of the scores and each label's recall. If the model has a rule
    of rejection: also the share that it rejects, that of images with a right label that lose it, and the accuracy of
    the labels given, whose scores the calibration error is of; top-1 and recalls are without.

    Detection: at an overlap of 0.5 and the mean of 0.5 to 0.95, as COCO has them, of all labels and of each. PATH has
    pictures with boxes in any form that `edgemeta train --task detection` takes.

    Labels are matched by name. Pictures are cropped and resized as camera frames are. A float model runs in NumPy,
    regardless of the backend, and has no scores.

    \b
    Examples:
      edgemeta eval resnet8-cifar10 --data test.npz
      edgemeta eval ./clothing.safetensors --data clothing/validation
      edgemeta eval resnet8-cifar10-float --data test.npz --json
      edgemeta eval ./scenes.safetensors --data scenes-test.npz
    """
    path = find(model_name)
    if is_float_model(path):
        floating = load_float_model(path)
        with progress_bar("eval") as progress:
            result = _of_floats(model_name, floating, Path(data_path), progress)
        digest, backend_name = hashlib.sha256(path.read_bytes()).hexdigest(), "float32"
    else:
        model = load_model(model_name)
        digest = model.digest
        images = _images(model_name, model.task, model.input.shape[:2], Path(data_path))
        backend_name, session = open_session(model, backend, threads, isa)
        with closing(session), progress_bar("eval") as progress:
            result = _of_integers(model, session, images, progress)
    origin = f"{backend_name}, sha256 {digest[:12]}"
    if isinstance(result, Precision):
        values = precision_values(result)
        lines = [*precision_lines(result), f"{result.images:,} images ({origin})"]
    else:
        values, lines = _values(result), list(_lines(result, origin))
    report(as_json, {**values, "images": result.images, "sha256": digest, "backend": backend_name}, lines)


def _of_floats(name: str, model: FloatModel, data: Path, progress: Progress) -> Evaluation | Precision:
    images = _images(name, model.task, model.input_shape[:2], data)
    if isinstance(images, BoxedImages):
        return evaluate_float_detector(model, images, progress)
    return evaluate_float(model, images, progress)


def _of_integers(
    model: Model, session: Session, images: LabelledImages | BoxedImages, progress: Progress
) -> Evaluation | Precision:
    if isinstance(images, BoxedImages):
        return evaluate_detector(model, session, images, progress)
    return evaluate_integers(model, session, images, progress)


def _images(model_name: str, task: Task, size: tuple[int, int], data: Path) -> LabelledImages | BoxedImages:
    """What a model of this task is measured on. size: height and width of its input."""
    match task:
        case Detection():
            return open_boxed_images(data, task.labels, size)
        case Classification():
            return open_images(data, task.labels, remark)
    raise EdgemetaError(
        f"{model_name}: its task is {task_name(task)}, accuracy is measured for classification and detection only"
    )


def _values(result: Evaluation) -> dict[str, object]:
    return {
        "top1": round(100 * result.top1, 4),
        "calibration_error": None if result.calibration_error is None else round(100 * result.calibration_error, 4),
        "rejections": None
        if result.rejections is None
        else {key: round(100 * share, 4) for key, share in asdict(result.rejections).items()},
        "recall": {
            each.label: {"percent": round(100 * each.share, 4), "images": each.images} for each in result.recalls
        },
    }


def _lines(result: Evaluation, origin: str) -> Iterator[str]:
    error = result.calibration_error
    calibration = "" if error is None else f", calibration error {100 * error:.2f} %"
    yield f"top-1 {100 * result.top1:.2f} %{calibration}, {result.images:,} images ({origin})"
    if (rule := result.rejections) is not None:
        yield (
            f"unknown {100 * rule.rejected:.2f} %: {100 * rule.lost:.2f} points lose a right label; "
            f"{100 * rule.labelled_top1:.2f} % of the labels given are right"
        )
    shown = result.recalls[:_SHOWN_CLASSES]
    more = len(result.recalls) > len(shown)
    yield f"recall of the worst {len(shown)} of {len(result.recalls)} labels (--json has all):" if more else "recall:"
    width = max(len(each.label) for each in shown)
    for each in shown:
        yield f"  {each.label:<{width}}  {100 * each.share:6.2f} % of {each.images:,} images"


@click.command(short_help="Compare a backend with the reference, bit for bit.")
@model_argument
@data_option
@backend_options
@json_of("images, mismatches; with a rule of rejection rejected, rule_mismatches")
def verify(model_name: str, data_path: str, backend: str, threads: int | None, isa: str | None, as_json: bool) -> None:
    """Compare a backend's outputs with the reference's, bit for bit, on every image. Exit status 1 on any mismatch.

    The images need no labels: PATH may also be any folder of pictures. If the model has a rule of rejection: also how
    many images it rejects, and how many it treats otherwise than on the reference.

    \b
    Examples:
      edgemeta verify resnet8-cifar10 --data test.npz --backend cpu
      edgemeta verify resnet8-cifar10 --data test.npz --backend cpu --isa avx2 --json
    """
    model = load_model(model_name)
    frames = _frames(Path(data_path))
    rule = _RuleOutcomes(model.task) if isinstance(model.task, Classification) and model.task.rejection else None
    compare = None if rule is None else rule.add
    backend_name, session = open_session(model, backend, threads, isa)
    with closing(session), progress_bar("verify") as progress:
        images, mismatches = count_mismatches(session, model, _batches(model, frames), len(frames), progress, compare)
    if not images:
        raise EdgemetaError(f"{data_path}: no image can be decoded, expected at least one")
    values = {"images": images, "mismatches": mismatches, "sha256": model.digest, "backend": backend_name}
    lines = [f"{images:,} images, {mismatches:,} mismatches against the reference ({backend_name})"]
    if rule is not None:
        values |= {"rejected": rule.rejected, "rule_mismatches": rule.mismatches}
        lines.append(f"{rule.rejected:,} images rejected by the rule, {rule.mismatches:,} mismatches of the rule")
    report(as_json, values, lines)
    if mismatches:
        sys.exit(1)


class _RuleOutcomes:
    """rejected: images that a rule rejects by the reference's outputs. mismatches: other outcomes by found outputs."""

    def __init__(self, task: Classification) -> None:
        self._task = task
        self.rejected = self.mismatches = 0

    def add(self, found: Outputs, expected: Outputs) -> None:
        """Count a batch."""
        wanted = unknown(self._task, expected)
        self.rejected += int(np.count_nonzero(wanted))
        self.mismatches += int(np.count_nonzero(unknown(self._task, found) != wanted))


def _frames(path: Path) -> Frames:
    """All frames of a data set or of a folder of pictures."""
    if path.is_dir() and not is_dataset(path):
        return FolderFrames(path, sys.maxsize, remark)
    if is_boxed(path):
        return BoxedFrames(path)
    return ArrayFrames(load_dataset(path, labels=NUMBERS).x, str(path))


def _batches(model: Model, frames: Frames) -> Iterator[Batch]:
    """The frames as model input, preprocessed as in the service."""
    preprocessor = lru_cache(_SHAPES)(lambda shape: make_preprocessor(model, shape))
    images: list[NDArray[Any]] = []
    for frame in frames:
        images.append(preprocessor(frame.shape)(frame).copy())
        if len(images) == _BATCH:
            yield _joined(images)
            images = []
    if images:
        yield _joined(images)


def _joined(images: list[NDArray[Any]]) -> Batch:
    batch: Batch = np.concatenate(images)
    return batch
