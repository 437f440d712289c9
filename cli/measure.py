"""`eval`, `verify` and `bench`: accuracy, exactness and latency of a model on a backend."""

import hashlib
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from edgemeta.cli.options import (
    backend_options,
    data_option,
    json_option,
    load_model,
    model_argument,
    open_session,
    report,
)
from edgemeta.cli.progress import progress_bar
from edgemeta.model.errors import EdgemetaError
from edgemeta.model.graph import Model
from edgemeta.model.tasks import Classification, task_name
from edgemeta.model.zoo import find
from edgemeta.plugins.api import Batch
from edgemeta.plugins.measure import bench as measure_latency
from edgemeta.plugins.measure import verify as count_mismatches
from edgemeta.plugins.preprocess import make_preprocessor
from edgemeta.tasks.classification import logits_of, scores
from edgemeta.toolchain.confidence import calibration_error
from edgemeta.toolchain.data.dataset import Dataset, load_dataset
from edgemeta.toolchain.float_model.file import is_float_model, load_float_model
from edgemeta.toolchain.float_model.forward import accuracy

_BATCH = 100


@click.command("eval", short_help="Measure accuracy on labelled images.")
@model_argument
@data_option
@backend_options
@json_option
def evaluate(
    model_name: str, data_path: str, backend: str, threads: int | None, isa: str | None, as_json: bool
) -> None:
    """Measure top-1 accuracy and the expected calibration error of the scores on labelled images, in percent.

    A float model runs in NumPy, regardless of the backend, and has no scores.

    \b
    Examples:
      edgemeta eval resnet8-cifar10 --data test.npz
      edgemeta eval resnet8-cifar10-float --data test.npz --json
    """
    data = load_dataset(Path(data_path))
    path = find(model_name)
    if is_float_model(path):
        floating = load_float_model(path)
        _check_labels(data, data_path, floating.labels)
        with progress_bar("eval") as progress:
            top1 = accuracy(floating, data.x, data.y, progress)
        error, digest, backend_name = None, hashlib.sha256(path.read_bytes()).hexdigest(), "float32"
    else:
        model = load_model(model_name)
        task = model.task
        if not isinstance(task, Classification):
            raise EdgemetaError(
                f"{model_name}: its task is {task_name(task)}, accuracy is measured for classification only"
            )
        _check_labels(data, data_path, model.labels)
        digest = model.digest
        backend_name, session = open_session(model, backend, threads, isa)
        rows: list[NDArray[Any]] = []  # one image's logits each
        with closing(session), progress_bar("eval") as progress:
            for batch in _batches(model, data):
                rows.extend(logits_of(session.run(batch)).copy())
                progress(len(rows), len(data))
        logits = np.stack(rows)
        top1 = float((logits.argmax(axis=1) == data.y).mean())
        error = calibration_error(scores(logits, model.output_types[0], task.temperature), data.y)
    values = {
        "top1": round(100 * top1, 4),
        "calibration_error": None if error is None else round(100 * error, 4),
        "images": len(data),
        "sha256": digest,
        "backend": backend_name,
    }
    calibration = "" if error is None else f", calibration error {100 * error:.2f} %"
    line = f"top-1 {100 * top1:.2f} %{calibration}, {len(data):,} images ({backend_name}, sha256 {digest[:12]})"
    report(as_json, values, [line])


@click.command(short_help="Compare a backend with the reference, bit for bit.")
@model_argument
@data_option
@backend_options
@json_option
def verify(model_name: str, data_path: str, backend: str, threads: int | None, isa: str | None, as_json: bool) -> None:
    """Compare a backend's outputs with the reference's, bit for bit, on every image. Exit status 1 on any mismatch.

    \b
    Examples:
      edgemeta verify resnet8-cifar10 --data test.npz --backend cpu
      edgemeta verify resnet8-cifar10 --data test.npz --backend cpu --isa avx2 --json
    """
    data = load_dataset(Path(data_path))
    model = load_model(model_name)
    backend_name, session = open_session(model, backend, threads, isa)
    with closing(session), progress_bar("verify") as progress:
        images, mismatches = count_mismatches(session, model, _batches(model, data), len(data), progress)
    values = {"images": images, "mismatches": mismatches, "sha256": model.digest, "backend": backend_name}
    report(as_json, values, [f"{images:,} images, {mismatches:,} mismatches against the reference ({backend_name})"])
    if mismatches:
        sys.exit(1)


@click.command(short_help="Time one image from input tensor to logits.")
@model_argument
@backend_options
@click.option("--runs", default=2000, show_default=True, type=click.IntRange(min=1), help="Timed runs, batch 1.")
@click.option(
    "--paced", type=click.FloatRange(min=0.0), default=0.0, metavar="MS", help="Wait between runs, like a camera."
)
@json_option
def bench(
    model_name: str, backend: str, threads: int | None, isa: str | None, runs: int, paced: float, as_json: bool
) -> None:
    """Time one image from input tensor to logits, in microseconds, after a warm-up.

    \b
    Examples:
      edgemeta bench resnet8-cifar10 --backend cpu --runs 5000
      edgemeta bench resnet8-cifar10 --backend cpu --paced 10 --json
    """
    model = load_model(model_name)
    backend_name, session = open_session(model, backend, threads, isa)
    with closing(session), progress_bar("bench") as progress:
        timing = measure_latency(session, model, runs, paced, progress)
    values = {
        "median_us": timing.median_us,
        "p99_us": timing.p99_us,
        "min_us": timing.min_us,
        "stages": timing.stages,
        "runs": runs,
        "backend": backend_name,
        "sha256": model.digest,
    }
    lines = [f"median {timing.median_us:.1f} us, p99 {timing.p99_us:.1f}, min {timing.min_us:.1f} ({backend_name})"]
    lines += [f"  {name:<24} {microseconds:8.1f} us" for name, microseconds in timing.stages.items()]
    report(as_json, values, lines)


def _batches(model: Model, data: Dataset) -> Iterator[Batch]:
    """The images as model input, preprocessed like camera frames."""
    preprocessor = make_preprocessor(model, data.x.shape[1:])
    bgr = np.ascontiguousarray(data.x[..., ::-1])
    for start in range(0, len(data), _BATCH):
        yield np.concatenate([preprocessor(frame).copy() for frame in bgr[start : start + _BATCH]])


def _check_labels(data: Dataset, path: str, labels: tuple[str, ...]) -> None:
    if data.labels != labels:
        raise EdgemetaError(f"{path}: labels are {', '.join(data.labels)}, expected the model's: {', '.join(labels)}")
