"""`simulate`: networks under other number formats, and as integers in PyTorch."""

import sys
from pathlib import Path

import click

from edgemeta.cli.options import data_option, json_option, load_model, model_argument, remark, report
from edgemeta.cli.progress import progress_bar
from edgemeta.model.errors import EdgemetaError
from edgemeta.model.tasks import Classification, task_name
from edgemeta.toolchain.data.labelled_images import open_images
from edgemeta.toolchain.evaluation import evaluate
from edgemeta.toolchain.train.requirements import require_torch


@click.group()
def simulate() -> None:
    """Run networks in the precision simulator (PyTorch, extra `train`).

    \b
    Examples:
      edgemeta simulate eval resnet8-cifar10 --data test.npz
    """


@simulate.command("eval", short_help="Run a model's integers in PyTorch, beside the reference.")
@model_argument
@data_option
@json_option
def evaluate_simulated(model_name: str, data_path: str, as_json: bool) -> None:
    """Run a model's integers in PyTorch: top-1 accuracy, and the images with another integer than the reference's.

    Every tensor of every layer is compared. Exit status 1 on any mismatch.

    \b
    Examples:
      edgemeta simulate eval resnet8-cifar10 --data test.npz
      edgemeta simulate eval ./mine.safetensors --data pictures/validation --json
    """
    model = load_model(model_name)
    if not isinstance(model.task, Classification):
        raise EdgemetaError(
            f"{model_name}: its task is {task_name(model.task)}, accuracy is measured for classification only"
        )
    require_torch()
    from edgemeta.toolchain.simulate.session import SimulatedSession

    images = open_images(Path(data_path), model.labels, remark)
    session = SimulatedSession(model)
    with progress_bar("simulate") as progress:
        result = evaluate(model, session, images, progress)
    values = {
        "top1": round(100 * result.top1, 4),
        "images": result.images,
        "mismatches": session.mismatches,
        "sha256": model.digest,
    }
    lines = (
        f"top-1 {100 * result.top1:.2f} %, {result.images:,} images, {session.mismatches:,} mismatches against the "
        f"reference in {len(model.layers)} layers (sha256 {model.digest[:12]})",
    )
    report(as_json, values, lines)
    if session.mismatches:
        sys.exit(1)
