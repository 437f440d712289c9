"""Options of `quantize` for its scheme `incremental`."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from edgemeta.model.file import load
from edgemeta.toolchain.errors import QuantizeError
from edgemeta.toolchain.incremental.command import IncrementalScheme
from edgemeta.toolchain.incremental.freezing import RULES, Rule
from edgemeta.toolchain.incremental.settings import BITS, IncrementalSettings
from edgemeta.toolchain.quantize.calibration import Calibration
from edgemeta.toolchain.quantize.exponents import EXPONENT_CHOICES, ExponentChoice

F = TypeVar("F", bound=Callable[..., Any])

_DEFAULT = IncrementalSettings()
_path = click.Path(path_type=Path)


class _Shares(click.ParamType[tuple[float, ...]]):
    """Numbers with commas between them."""

    name = "SHARES"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[float, ...]:
        if isinstance(value, tuple):
            return value
        try:
            return tuple(float(part) for part in str(value).split(","))
        except ValueError:
            self.fail(f"found {value!r}, expected numbers with commas between them, such as 0.5,1", param, ctx)


_OPTIONS = (
    click.option("--train", type=_path, metavar="PATH", help="Incremental: images to retrain with."),
    click.option("--folder", type=_path, metavar="DIR", help="Incremental: run folder for checkpoint and log."),
    click.option(
        "--bits",
        type=click.Choice([str(bits) for bits in BITS]),
        default=str(_DEFAULT.bits),
        show_default=True,
        help="Incremental: bits of a weight.",
    ),
    click.option(
        "--widths", type=_path, metavar="FILE", help="Incremental: bits by layer, from `best.safetensors` of a search."
    ),
    click.option(
        "--shares",
        type=_Shares(),
        default=_DEFAULT.text_of_shares.replace(" ", ""),
        show_default=True,
        help="Incremental: share of the weights that is frozen after each step.",
    ),
    click.option(
        "--rule",
        type=click.Choice(RULES),
        default=_DEFAULT.rule,
        show_default=True,
        help="Incremental: what is frozen first: the largest error (the paper), the greatest magnitude (INQ), or any.",
    ),
    click.option(
        "--exponents",
        type=click.Choice(EXPONENT_CHOICES),
        default=_DEFAULT.exponents,
        show_default=True,
        help="Incremental: powers of two of a layer: up to its largest weight (INQ), or those of least square error.",
    ),
    click.option(
        "--epochs",
        type=click.IntRange(min=1),
        default=_DEFAULT.epochs,
        show_default=True,
        help="Incremental: passes over the training images in each step.",
    ),
    click.option(
        "--annealing",
        "heat",
        type=click.FloatRange(min=0),
        default=_DEFAULT.heat,
        show_default=True,
        help="Incremental: temperature at which frozen weights are released at the start of a step; 0: none is.",
    ),
    click.option(
        "--lr",
        type=click.FloatRange(min=0, min_open=True),
        default=_DEFAULT.lr,
        show_default=True,
        help="Incremental: learning rate at the start of each step.",
    ),
    click.option(
        "--alternates", type=_path, metavar="FILE", help="Incremental: .npz with other pixels of some training images."
    ),
    click.option(
        "--seed",
        type=click.IntRange(min=0),
        default=_DEFAULT.seed,
        show_default=True,
        help="Incremental: random numbers.",
    ),
    click.option("--fresh", is_flag=True, help="Incremental: delete the run in the folder instead of continuing it."),
    click.option("--threads", type=click.IntRange(min=1), help="Incremental: CPU threads of PyTorch."),
)


def incremental_options(command: F) -> F:
    """Add the options of scheme incremental to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def incremental_of(
    scheme: str,
    *,
    train: Path | None,
    folder: Path | None,
    alternates: Path | None,
    fresh: bool,
    threads: int | None,
    bits: str,
    widths: Path | None,
    rule: Rule,
    exponents: ExponentChoice,
    calibration: Calibration | None,
    **settings: Any,
) -> IncrementalScheme | None:
    """What the options say, for scheme incremental. Raises click.UsageError for missing or superfluous paths."""
    if scheme != "incremental":
        if any(each is not None for each in (train, folder, alternates, widths)):
            raise click.UsageError("--train, --folder, --alternates and --widths are for --scheme incremental")
        return None
    if train is None or folder is None:
        raise click.UsageError("--scheme incremental needs --train and --folder")
    found = {} if widths is None else _searched(widths)
    chosen = IncrementalSettings(bits=int(bits), widths=found, rule=rule, exponents=exponents, **settings)
    return IncrementalScheme(train, folder, chosen, alternates, fresh, threads, calibration)


def _searched(path: Path) -> Mapping[str, int]:
    """Bits of the weights of each layer of a network that a search found. Raises QuantizeError."""
    found = load(path).provenance
    widths = found.get("weights")
    if found.get("scheme") != "power-of-two" or not isinstance(widths, dict):
        raise QuantizeError(f"{path}: was made by scheme {found.get('scheme')}, expected a search with power-of-two")
    return widths
