"""`train`: makes a float model from labelled images."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import click

from edgemeta.cli.options import json_option, remark, report
from edgemeta.cli.progress import progress_bar
from edgemeta.toolchain.progress import Progress, ProgressCallback
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
            recipe,
            data,
            test,
            folder,
            out,
            alternates=alternates,
            resume=not fresh,
            threads=threads,
            progress=show,
            report=remark,
        )
    values = {"path": str(result.path), "top1": 100 * result.accuracy, "images": result.images, "epochs": result.epochs}
    line = f"{out}: top-1 {100 * result.accuracy:.2f} % of {result.images:,} test images after {result.epochs} epochs"
    report(as_json, values, [line])


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
