"""`simulate`: networks under other number formats, and as integers in PyTorch."""

import sys
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import click

from edgemeta.cli.options import (
    data_option,
    json_of,
    load_model,
    model_argument,
    remark,
    report,
    writes_files,
)
from edgemeta.cli.progress import progress_bar
from edgemeta.cli.stages import Stages
from edgemeta.cli.training_bars import watched_training
from edgemeta.model.callbacks import Progress
from edgemeta.model.errors import EdgemetaError
from edgemeta.model.tasks import Classification, task_name
from edgemeta.toolchain.data.labelled_images import open_images
from edgemeta.toolchain.evaluate.classification import evaluate
from edgemeta.toolchain.train.requirements import require_torch

_path = click.Path(path_type=Path)


class Work(NamedTuple):
    """A stage, and its work in images."""

    name: str
    work: float


@click.group()
def simulate() -> None:
    """Run networks in the precision simulator (PyTorch, extra `train`).

    \b
    Examples:
      edgemeta simulate eval resnet8-cifar10 --data test.npz
      edgemeta simulate train --config int8.yaml --data train/ --test test/ --folder runs/int8
      edgemeta simulate export --config int8.yaml --data train/ --test test/ --folder runs/int8 --out int8.safetensors
    """


@simulate.command("train", short_help="Train a network under number formats.")
@click.option("--config", type=_path, required=True, metavar="FILE", help="YAML: network, steps, rules of formats.")
@click.option("--data", type=_path, required=True, metavar="PATH", help="Labelled training images.")
@click.option(
    "--test", type=_path, required=True, metavar="PATH", help="Labelled images that each epoch is measured on."
)
@click.option(
    "--folder",
    type=_path,
    required=True,
    metavar="RUN",
    help="Folder for checkpoint, log and learning curves; a run in it is continued.",
)
@click.option("--fresh", is_flag=True, help="Delete the run in the folder and start afresh, instead of continuing it.")
@click.option("--threads", type=click.IntRange(min=1), help="CPU threads of PyTorch, of each worker.")
@json_of("folder, top1, images, epochs, sha256 of all weights")
def train_simulated(
    config: Path, data: Path, test: Path, folder: Path, fresh: bool, threads: int | None, as_json: bool
) -> None:
    """Train a network under the number formats of a config, alone or as one of the workers that torchrun starts.

    The workers share each batch and round alike. An interrupted run, also one of which a worker was killed, continues
    after its last complete epoch when the same command is given again.

    \b
    Examples:
      edgemeta simulate train --config int8.yaml --data cifar-10-batches-bin --test cifar-10-batches-bin \\
          --folder runs/int8
      torchrun --nproc-per-node 4 --max-restarts 3 --no-python \\
          edgemeta simulate train --config int8.yaml --data train.npz --test test.npz --folder runs/int8
    """
    require_torch()
    from edgemeta.toolchain.simulate.training import train

    with watched_training() as bars:
        result = train.train_simulated(
            config, data, test, folder, fresh=fresh, threads=threads, progress=bars.show, report=remark
        )
    if not result.first:
        return
    values = {
        "folder": str(result.folder),
        "top1": result.accuracy,
        "images": result.images,
        "epochs": result.epochs,
        "sha256": result.sha256,
    }
    line = (
        f"{result.folder}: top-1 {result.accuracy:.2f} % of {result.images:,} test images after {result.epochs} epochs "
        f"(sha256 {result.sha256[:12]})"
    )
    report(as_json, values, [line, f"learning curves: {result.folder / 'curves.html'}"])


@simulate.command("export", short_help="Write a finished run as an integer model file.")
@click.option("--config", type=_path, required=True, metavar="FILE", help="The config of the run.")
@click.option("--data", type=_path, required=True, metavar="PATH", help="The training images of the run.")
@click.option("--test", type=_path, required=True, metavar="PATH", help="The test images of the run.")
@click.option("--folder", type=_path, required=True, metavar="RUN", help="Folder of the run.")
@click.option("--name", help="Name of the model in messages and logs; default: those of network and config.")
@click.option("--out", type=_path, required=True, metavar="FILE", help="The integer model to write.")
@json_of("path, sha256, bytes, top1, simulated_top1, images")
@writes_files("out")
def export_simulated(
    config: Path, data: Path, test: Path, folder: Path, name: str | None, out: Path, as_json: bool
) -> None:
    """Write the network of a finished run, trained under rules of integers, as a model file for every backend.

    Its weights are the integers of the training. Activations need integers of at most 8 bits, weights symmetric ones or
    powers of two, with one scale in the layer of the scores. It is measured on the test images.

    \b
    Examples:
      edgemeta simulate export --config int8.yaml --data train.npz --test test.npz --folder runs/int8 \\
          --out int8.safetensors
      edgemeta simulate eval int8.safetensors --data test.npz
    """
    require_torch()
    from edgemeta.toolchain.simulate.training.exported import RANGE_IMAGES, export_run

    with closing(Stages()) as stages:
        stages.plan([Work("ranges", RANGE_IMAGES), Work("test images", RANGE_IMAGES)])

        def begin(stage: str) -> Progress:
            stages.begin(stage)
            return stages.progress

        result = export_run(config, data, test, folder, out, name=name, stage=begin, report=remark)
    values = {
        "path": str(result.path),
        "sha256": result.sha256,
        "bytes": result.size,
        "top1": round(result.accuracy, 4),
        "simulated_top1": result.simulated,
        "images": result.images,
    }
    lines = (
        f"{result.path}: {result.size:,} bytes, sha256 {result.sha256[:12]}",
        f"top-1 {result.accuracy:.2f} % of {result.images:,} test images, under the rules {result.simulated:.2f} %",
    )
    report(as_json, values, lines)


@simulate.command("eval", short_help="Run a model's integers in PyTorch, beside the reference.")
@model_argument
@data_option
@json_of("top1, images, mismatches")
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
