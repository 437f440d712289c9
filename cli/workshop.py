"""`train`: makes a float model from labelled images."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from edgemeta.cli.completion import float_model_names
from edgemeta.cli.options import json_of, report, writes_files
from edgemeta.cli.precision import precision_lines, precision_values
from edgemeta.cli.training_bars import TrainingRun
from edgemeta.cli.training_boxes import ImageSize, box_options, require_no_boxes, side_of, train_detection
from edgemeta.toolchain.train.designs import DEPTHS, FAMILIES, MAX_WIDTH, MIN_WIDTH, Family, Wishes
from edgemeta.toolchain.train.detector.recipe import is_detector_recipe
from edgemeta.toolchain.train.detector.train import DetectorResult, train_detector
from edgemeta.toolchain.train.own_pictures import PicturesResult, train_pictures
from edgemeta.toolchain.train.recipe import find_recipe
from edgemeta.toolchain.train.train import train as train_by_recipe

_path = click.Path(path_type=Path)


@click.command(short_help="Train a float network on own pictures, or by a recipe.")
@click.argument("recipe", required=False)
@click.option(
    "--data",
    type=_path,
    required=True,
    metavar="PATH",
    help="Labelled training images: a folder with a folder of pictures for each class, or a data set.",
)
@click.option(
    "--task",
    type=click.Choice(["classification", "detection"]),
    default="classification",
    show_default=True,
    help="What the pictures are labelled with: a class, or boxes.",
)
@click.option("--test", type=_path, metavar="PATH", help="Labelled images that are only measured, at the end.")
@click.option(
    "--size",
    type=ImageSize(),
    metavar="N|HxW",
    help="Side of the network's square input in pixels; of a detection also height and width.  "
    "[default: that of --start; else 96, or that of the images of a file; detection: 320]",
)
@click.option("--network", "family", type=click.Choice(FAMILIES), help="Kind of network.  [default: resnet]")
@click.option(
    "--depth", type=click.Choice([str(depth) for depth in DEPTHS]), help="Layers of a residual network.  [default: 14]"
)
@click.option(
    "--width",
    type=click.FloatRange(MIN_WIDTH, MAX_WIDTH),
    metavar="F",
    help="Factor on all channels.  [default: 3 for resnet, 0.5 for mobilenetv2, 0.25 for vgg16 and alexnet]",
)
@click.option(
    "--start",
    metavar="FLOAT",
    shell_complete=float_model_names,
    help="Float model, a file or a shipped name, whose weights are the first ones; its network is trained. Of a "
    "detector also an integer model.",
)
@click.option("--epochs", type=click.IntRange(min=1), help="Passes over the pictures.  [default: 100]")
@click.option(
    "--alternates", type=_path, metavar="PATH", help="With a recipe: other pixels of some images (x, y, index)."
)
@click.option(
    "--folder",
    type=_path,
    required=True,
    metavar="DIR",
    help="Folder for checkpoints and log; a run in it is continued.",
)
@click.option("--out", type=_path, required=True, metavar="FILE", help="The float model to write.")
@click.option("--name", help="Name of the model in messages and logs; default: that of the network and the data.")
@click.option("--fresh", is_flag=True, help="Delete the run in the folder and start afresh, instead of continuing it.")
@click.option("--threads", type=click.IntRange(min=1), help="CPU threads of PyTorch.")
@box_options
@json_of(
    "path, top1, validation_top1, recall, confusion, best_epoch, held_out and more; of a detection path, card, "
    "report, map50, map, images, epochs, best_epoch, held_out"
)
@writes_files("out")
def train(
    recipe: str | None,
    data: Path,
    task: str,
    test: Path | None,
    size: tuple[int, int] | None,
    family: Family | None,
    depth: str | None,
    width: float | None,
    start: str | None,
    epochs: int | None,
    alternates: Path | None,
    folder: Path,
    out: Path,
    name: str | None,
    fresh: bool,
    threads: int | None,
    as_json: bool,
    **boxes: Any,
) -> None:
    """Train a float network on your own pictures, or by RECIPE. Needs PyTorch: pip install 'edgemeta[train]'.

    Without RECIPE a fixed tenth of each class is held out to choose the best epoch. RECIPE is a shipped name or a YAML
    file; it needs --test, and the network is its own. The recipe of a detector needs archives with boxes, as `edgemeta
    scenes` writes them.

    An interrupted run continues after its last complete epoch when the same command is given again.

    \b
    Examples:
      edgemeta train --data pictures/ --folder runs/gate --out gate-float.safetensors
      edgemeta train --data pictures/ --test later/ --size 64 --depth 8 --width 1 \\
          --folder runs/small --out small-float.safetensors --json
      edgemeta train resnet8-cifar10 --data cifar-10-batches-bin --test cifar-10-batches-bin \\
          --folder runs/mine --out mine-float.safetensors
      edgemeta train yolov3-tiny-scenes --data scenes.npz --test scenes-test.npz \\
          --folder runs/scenes --out scenes-float.safetensors
      edgemeta train --task detection --data gate.npz --start people-float.safetensors \\
          --folder runs/gate --out gate-float.safetensors
    """
    run = TrainingRun(data, test, folder, out, name, fresh, threads, as_json)
    if task == "detection":
        others = {"RECIPE": recipe, "--network": family, "--depth": depth, "--alternates": alternates}
        train_detection(run, others, {**boxes, "size": size, "width": width, "start": start, "epochs": epochs})
        return
    require_no_boxes(boxes)
    wishes = Wishes(family, None if depth is None else int(depth), width, side_of(size))
    if recipe is None:
        if alternates is not None:
            raise click.UsageError("--alternates needs a RECIPE")
        _train_pictures(run, wishes, start, epochs)
        return
    is_detector = is_detector_recipe(find_recipe(recipe))
    if test is None:
        raise click.UsageError("Missing option '--test', which a RECIPE needs")
    if wishes != Wishes() or start is not None or epochs is not None:
        raise click.UsageError("--size, --network, --depth, --width, --start and --epochs are given by the RECIPE")
    if is_detector and alternates is not None:
        raise click.UsageError("--alternates is for a classification, found the recipe of a detector")
    if is_detector:
        _train_detector(run, recipe, test)
    else:
        _train_by_recipe(run, recipe, test, alternates)


def _train_pictures(run: TrainingRun, wishes: Wishes, start: str | None, epochs: int | None) -> None:
    with run.watched() as common:
        result = train_pictures(
            run.data, run.folder, run.out, test=run.test, wishes=wishes, start=start, epochs=epochs, **common
        )
    report(run.as_json, _pictures_values(result), _pictures_text(result, run.data))


def _train_detector(run: TrainingRun, recipe: str, test: Path) -> None:
    with run.watched() as common:
        result = train_detector(find_recipe(recipe), run.data, test, run.folder, run.out, **common)
    report(run.as_json, _detector_values(result), _detector_text(result))


def _train_by_recipe(run: TrainingRun, recipe: str, test: Path, alternates: Path | None) -> None:
    with run.watched() as common:
        result = train_by_recipe(recipe, run.data, test, run.folder, run.out, alternates=alternates, **common)
    top1, held_out = 100 * result.accuracy, result.held_out
    values = {
        "path": str(result.path),
        "top1": top1,
        "images": result.images,
        "epochs": result.epochs,
        "held_out": None if held_out is None else str(held_out),
    }
    lines = [f"{run.out}: top-1 {top1:.2f} % of {result.images:,} test images after {result.epochs} epochs"]
    if held_out is not None:
        lines.append(_next(result.path, run.data, held_out))
    report(run.as_json, values, lines)


def _detector_values(result: DetectorResult) -> dict[str, object]:
    return {
        "path": str(result.path),
        **precision_values(result.precision),
        "images": result.precision.images,
        "epochs": result.epochs,
        "held_out": None if result.held_out is None else str(result.held_out),
    }


def _detector_text(result: DetectorResult) -> Iterator[str]:
    yield f"{result.path}: {result.epochs} epochs; on {result.precision.images:,} test images:"
    yield from precision_lines(result.precision)


def _pictures_values(result: PicturesResult) -> dict[str, object]:
    test = result.test
    return {
        "path": str(result.path),
        "name": result.name,
        "network": result.network,
        "size": result.size,
        "labels": list(result.validation.labels),
        "epochs": result.epochs,
        "best_epoch": result.epoch,
        "validation_top1": 100 * result.validation.accuracy,
        "validation_images": result.validation.images,
        "top1": None if test is None else 100 * test.accuracy,
        "images": 0 if test is None else test.images,
        "recall": {label: None if share is None else 100 * share for label, share in result.measured.recall().items()},
        "confusion": result.measured.counts.tolist(),
        "confusion_png": str(result.picture),
        "held_out": str(result.held_out),
    }


def _pictures_text(result: PicturesResult, data: Path) -> Iterator[str]:
    validation, test = result.validation, result.test
    yield (
        f"{result.path}: {result.name}, {result.network} of {result.size}x{result.size} pixels, "
        f"{len(validation.labels)} classes, epoch {result.epoch} of {result.epochs}"
    )
    yield f"top-1 {100 * validation.accuracy:.2f} % of {validation.images:,} images held out to choose the epoch"
    if test is not None:
        yield f"top-1 {100 * test.accuracy:.2f} % of {test.images:,} test images"
    yield f"recall of each {'test' if test else 'held-out'} class, and the labels given (columns):"
    yield from result.measured.text()
    yield f"the same as a picture: {result.picture}"
    yield _next(result.path, data, result.held_out)


def _next(path: Path, data: Path, held_out: Path) -> str:
    return f"next: edgemeta quantize {path} --calibrate {data} --held-out {held_out} --out MODEL"
