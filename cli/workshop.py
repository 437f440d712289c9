"""`train` and `quantize`: make a float model from labelled images, and an integer model file from a float model."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path

import click

from edgemeta.cli.options import json_option, report
from edgemeta.cli.progress import progress_bar
from edgemeta.model.zoo import find
from edgemeta.toolchain.progress import Progress, ProgressCallback
from edgemeta.toolchain.quantize.auto import Agreement
from edgemeta.toolchain.quantize.quantize import DEFAULT_IMAGES, SCHEMES, Scheme
from edgemeta.toolchain.quantize.quantize import quantize as quantize_file
from edgemeta.toolchain.train.train import train as train_by_recipe

_path = click.Path(path_type=Path)


@click.command(short_help="Train a float network by a recipe.")
@click.argument("recipe")
@click.option("--data", type=_path, required=True, metavar="PATH", help="Labelled training images.")
@click.option("--test", type=_path, required=True, metavar="PATH", help="Labelled images for measuring only.")
@click.option(
    "--alternates", type=_path, metavar="PATH", help="Alternative pixels of some training images (x, y, index)."
)
@click.option(
    "--folder",
    type=_path,
    required=True,
    metavar="DIR",
    help="Folder for checkpoints and log; a run in it is continued.",
)
@click.option("--out", type=_path, required=True, metavar="FILE", help="The float model to write.")
@click.option("--fresh", is_flag=True, help="Fail if the folder contains a run, instead of continuing it.")
@click.option("--threads", type=click.IntRange(min=1), help="CPU threads of PyTorch.")
@json_option
def train(
    recipe: str,
    data: Path,
    test: Path,
    alternates: Path | None,
    folder: Path,
    out: Path,
    fresh: bool,
    threads: int | None,
    as_json: bool,
) -> None:
    """Train a float network by RECIPE, a shipped name or a YAML file. Needs PyTorch: pip install 'edgemeta[train]'.

    An interrupted run continues after its last complete epoch.

    \b
    Examples:
      edgemeta train resnet8-cifar10 --data cifar-10-batches-bin --test cifar-10-batches-bin \\
          --folder runs/mine --out mine-float.safetensors
    """
    with _training_bars() as show:
        result = train_by_recipe(
            recipe, data, test, folder, out, alternates=alternates, resume=not fresh, threads=threads, progress=show
        )
    values = {"path": str(result.path), "top1": 100 * result.accuracy, "images": result.images, "epochs": result.epochs}
    line = f"{out}: top-1 {100 * result.accuracy:.2f} % of {result.images:,} test images after {result.epochs} epochs"
    report(as_json, values, [line])


@click.command(short_help="Turn a float model into an integer model file.")
@click.argument("float_model", metavar="FLOAT")
@click.option("--scheme", type=click.Choice(SCHEMES), default="auto", show_default=True, help="Quantization scheme.")
@click.option("--calibrate", type=_path, metavar="PATH", help="Training images for the choice of scales by `auto`.")
@click.option(
    "--images", type=click.IntRange(min=10), default=DEFAULT_IMAGES, show_default=True, help="Number of these images."
)
@click.option(
    "--held-out",
    type=_path,
    metavar="PATH",
    help="Images not used for training, to fit the temperature of the scores.",
)
@click.option("--test", type=_path, metavar="PATH", help="Measure both networks on these images and store the figures.")
@click.option("--name", help="Name of the model in messages and logs; default: that of the float model.")
@click.option("--out", type=_path, required=True, metavar="FILE", help="The integer model to write.")
@json_option
def quantize(
    float_model: str,
    scheme: Scheme,
    calibrate: Path | None,
    images: int,
    held_out: Path | None,
    test: Path | None,
    name: str | None,
    out: Path,
    as_json: bool,
) -> None:
    """Turn the float model FLOAT (a file or a shipped name) into an integer model file.

    `paper` is exactly the scheme of Terakura et al. (image Q7, weights Q5, activations Q3, tables). `auto` folds batch
    norm and chooses scales per channel and the better form of requantization with calibration images.

    \b
    Examples:
      edgemeta quantize resnet8-cifar10-float --scheme auto --calibrate train.npz --out mine.safetensors
      edgemeta quantize mine-float.safetensors --scheme paper --test test.npz --out paper.safetensors --json
    """
    tried: list[Agreement] = []
    result = quantize_file(
        find(float_model),
        out,
        scheme,
        calibration=calibrate,
        images=images,
        held_out=held_out,
        test=test,
        name=name,
        progress=tried.append,
    )
    values: dict[str, object] = {
        "path": str(result.path),
        "sha256": result.sha256,
        "scheme": scheme,
        "choice": result.choice,
        "tried": [asdict(each) for each in tried],
        "float_top1": _percent(result.float_accuracy),
        "top1": _percent(result.accuracy),
        "images": result.images,
        "temperature": result.temperature,
        "calibration_error": _percent(result.calibration_error),
        "plain_calibration_error": _percent(result.plain_calibration_error),
    }
    lines = [f"tried {each.choice}: logit error {each.error:.2e}, same label {each.same_label:.2%}" for each in tried]
    lines.append(f"{out}: scheme {scheme}{f', {result.choice}' if result.choice else ''}, sha256 {result.sha256[:12]}")
    if result.accuracy is not None and result.float_accuracy is not None:
        before, after = 100 * result.float_accuracy, 100 * result.accuracy
        lines.append(f"top-1 {after:.2f} % of {result.images:,} test images, float {before:.2f} %")
    if held_out is not None:
        lines.append(f"temperature of the scores {result.temperature:g}, fitted on {held_out}")
    if result.calibration_error is not None and result.plain_calibration_error is not None:
        before, after = 100 * result.plain_calibration_error, 100 * result.calibration_error
        lines.append(f"calibration error {after:.2f} % on the test images, at temperature 1 {before:.2f} %")
    report(as_json, values, lines)


def _percent(share: float | None) -> float | None:
    return None if share is None else round(100 * share, 4)


@contextmanager
def _training_bars() -> Iterator[ProgressCallback]:
    """A callback that draws one progress bar per stage of a training run."""
    with ExitStack() as bars:
        moves: dict[str, Callable[[int, int], None]] = {}

        def show(event: Progress) -> None:
            if event.stage not in moves:
                bars.close()
                moves[event.stage] = bars.enter_context(progress_bar(event.stage))
            moves[event.stage]((event.epoch - 1) * event.steps + event.step, event.epochs * event.steps)

        yield show
