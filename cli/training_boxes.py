"""`train --task detection`: the options that only a detector has, and what its training prints."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from edgemeta.cli.options import report
from edgemeta.cli.precision import precision_lines, precision_values
from edgemeta.cli.training_bars import TrainingRun
from edgemeta.toolchain.train.boxes.train import BoxResult, BoxWishes, train_boxes

if TYPE_CHECKING:
    from edgemeta.toolchain.torch_network import TorchNetwork

F = TypeVar("F", bound=Callable[..., Any])

_path = click.Path(path_type=Path)
_NAMES = ("held_out", "teacher", "unlabelled", "empty", "without", "device", "licences", "quantized_epochs")


class ImageSize(click.ParamType[tuple[int, int]]):
    """Sides of all networks that are trained: `N`, or `HxW` for height and width in pixels."""

    name = "size"
    sides = click.IntRange(24, 640)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        """Give height and width."""
        height, by, width = str(value).partition("x")
        return self.sides(height, param, ctx), self.sides(width if by else height, param, ctx)


def side_of(size: tuple[int, int] | None) -> int | None:
    """The side of a square. Raises UsageError for another size."""
    if size is not None and size[0] != size[1]:
        raise click.UsageError(f"--size is {size[0]}x{size[1]}, expected one number for a classification")
    return None if size is None else size[0]


def box_options(command: F) -> F:
    """Add the options of a detector to a command, which takes them as `boxes`."""
    options = (
        click.option("--held-out", type=_path, metavar="PATH", help="Detection: pictures that choose the epoch."),
        click.option("--teacher", type=_path, metavar="FLOAT", help="Detection: model whose boxes teach as well."),
        click.option(
            "--unlabelled",
            type=_path,
            multiple=True,
            metavar="DIR",
            help="Detection: pictures that only the teacher labels; may be repeated.",
        ),
        click.option(
            "--empty",
            type=_path,
            multiple=True,
            metavar="DIR",
            help="Detection: pictures that show none of the labels; may be repeated.",
        ),
        click.option(
            "--without", multiple=True, metavar="SOURCE", help="Detection: a source to leave out; may be repeated."
        ),
        click.option(
            "--device",
            type=click.Choice(["cpu", "cuda"]),
            help="Detection: what computes all epochs but those at 8 bits.  [default: cpu]",
        ),
        click.option(
            "--quantized-epochs",
            type=click.IntRange(min=0),
            help="Detection: epochs at the end with weights and activations rounded to 8 bits.  [default: 5]",
        ),
        click.option("--licences", type=_path, metavar="FILE", help="Detection: YAML with the licence of each source."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def train_detection(run: TrainingRun, others: Mapping[str, object], boxes: Mapping[str, Any]) -> None:
    """Train, and print what came of it. others: options of a classification alone, by name. boxes: of a detector."""
    for option, value in others.items():
        if value is not None:
            raise click.UsageError(f"{option} is for a classification, found --task detection")
    for side in boxes["size"] or ():
        if side % 32:
            raise click.UsageError(f"--size is {side}, expected a multiple of 32 for a detection")
    wishes = BoxWishes(
        device=boxes["device"] or "cpu",
        width=boxes["width"] or 1.0,
        start=None if boxes["start"] is None else Path(boxes["start"]),
        **{name: boxes[name] for name in ("size", "epochs", *_NAMES) if name not in ("held_out", "device")},
    )
    with run.watched() as common:
        result = train_boxes(
            *(run.data, run.folder, run.out, wishes, _in_eight_bits),
            held_out=boxes["held_out"],
            test=run.test,
            **common,
        )
    report(run.as_json, _values(result), _text(result, run.data))


def _in_eight_bits(network: "TorchNetwork") -> "TorchNetwork":
    from edgemeta.toolchain.simulate.eight_bits import in_eight_bits  # imports PyTorch

    return in_eight_bits(network)


def require_no_boxes(boxes: dict[str, Any]) -> None:
    """Raise UsageError for an option that only a detector has."""
    for name in _NAMES:
        if boxes[name] not in (None, ()):
            raise click.UsageError(f"--{name.replace('_', '-')} is for --task detection")


def _values(result: BoxResult) -> dict[str, object]:
    return {
        "path": str(result.path),
        "card": str(result.card),
        "report": str(result.page),
        **precision_values(result.measured),
        "images": result.measured.images,
        "epochs": result.epochs,
        "best_epoch": result.epoch,
        "held_out": str(result.held_out),
    }


def _text(result: BoxResult, data: Path) -> Iterator[str]:
    part = "held-out" if result.test is None else "test"
    yield f"{result.path}: epoch {result.epoch} of {result.epochs}; on {result.measured.images:,} {part} pictures:"
    yield from precision_lines(result.measured)
    yield f"hits and misses: {result.page}; model card: {result.card}"
    pictures = data if data.is_dir() else result.held_out
    yield f"next: edgemeta quantize {result.path} --calibrate {pictures} --test {result.held_out} --out MODEL"
