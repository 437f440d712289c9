"""`teach`: makes a model of a folder of pictures for each class, on the device."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import get_args

import click
from pydantic import ValidationError

from edgemeta.cli.completion import model_names
from edgemeta.cli.options import json_of, load_model, report, writes_files
from edgemeta.cli.progress import progress_bar
from edgemeta.daemon.capture.reshape import crop as crop_region
from edgemeta.daemon.config.camera import RegionConfig
from edgemeta.model.callbacks import Progress
from edgemeta.toolchain.teach.findings import Findings
from edgemeta.toolchain.teach.objects import object_finder
from edgemeta.toolchain.teach.teach import Crop, Settings, Taught, TeachProgress, write
from edgemeta.toolchain.teach.teach import teach as teach_folder

_path = click.Path(path_type=Path)
_EDGES = ("left", "top", "width", "height")
_SHOWN = 10
"""Pictures and pairs that are named in the text."""


def _region(_context: click.Context, _parameter: click.Parameter, value: str | None) -> RegionConfig | None:
    if value is None:
        return None
    expected = f"{value!r} is not {','.join(_EDGES)} in fractions of the picture, such as 0.25,0,0.5,0.75"
    try:
        numbers = [float(part) for part in value.split(",")]
        return RegionConfig(**dict(zip(_EDGES, numbers, strict=True)))
    except ValidationError as error:
        raise click.BadParameter(f"{expected} ({error.errors()[0]['msg']})") from None
    except ValueError:
        raise click.BadParameter(expected) from None


@click.command(short_help="Make a model of a folder of your pictures, in seconds.")
@click.argument("folder", type=_path)
@click.option("--out", type=_path, required=True, metavar="FILE", help="The model to write.")
@click.option(
    "--backbone",
    default="backbone64",
    show_default=True,
    metavar="MODEL",
    help="Whose layers to use.",
    shell_complete=model_names,
)
@click.option(
    "--region",
    callback=_region,
    metavar="LEFT,TOP,WIDTH,HEIGHT",
    help="Part of each picture that counts, in fractions of it, as `region` of a camera. Default: all of it.",
)
@click.option(
    "--crop",
    type=click.Choice(get_args(Crop)),
    default="full",
    show_default=True,
    help="Whether the network sees all of it, stretched to a square, or the square in its middle.",
)
@click.option(
    "--side",
    type=click.IntRange(24, 224),
    help="Pixels of a side of the network's image. Default: the backbone's, doubled up to 64.",
)
@click.option(
    "--of",
    metavar="LABEL",
    help="Teach names for objects of this label: of each picture the best one counts. For the key `object_names`.",
)
@click.option(
    "--detector",
    metavar="MODEL",
    help="With --of: the detection that finds the objects, as the camera has it.",
    shell_complete=model_names,
)
@click.option("--name", help="Name of the model in messages and logs; default: that of the folder.")
@json_of(
    "path, name, sha256, labels, pictures, pictures_left_out, pictures_of_label, accuracy (0 to 1), "
    "accuracy_interval, recall, confusing (picture, label, taken_for, score), nearly_the_same (pairs of "
    "pictures), warnings, region; progress on standard error: `pictures: 3 of 60`"
)
@writes_files("out")
def teach(
    folder: Path,
    out: Path,
    backbone: str,
    region: RegionConfig | None,
    crop: Crop,
    side: int | None,
    of: str | None,
    detector: str | None,
    name: str | None,
    as_json: bool,
) -> None:
    """Make a model that tells the classes of FOLDER apart: a sub-folder of pictures for each class, named after it.

    Twenty pictures of each class, of different times of the day, are a good start. It takes seconds and needs neither
    PyTorch nor a GPU. The accuracy that it prints is that of pictures that were held out, in blocks of time.

    \b
    Examples:
      edgemeta teach gate/ --out gate.safetensors
      edgemeta teach gate/ --out gate.safetensors --region 0.25,0,0.5,0.75
      edgemeta teach clothes/ --out clothes.safetensors --crop center --json
      edgemeta teach cars/ --of car --detector yolox.safetensors --out cars.safetensors
    """
    if (of is None) != (detector is None) or (of is not None and (region is not None or crop != "full")):
        raise click.UsageError("--of and --detector belong together, and go without --region and --crop")
    settings = Settings(
        name=name or folder.resolve().name,
        side=side,
        crop=crop,
        region=None if region is None else lambda frame: crop_region(frame, region),
        region_keys=None if region is None else region.model_dump(),
    )
    if of is not None and detector is not None:
        finds = load_model(detector)
        settings = replace(
            settings,
            region=object_finder(finds, of),
            objects={"label": of, "detector": {"name": finds.name, "sha256": finds.digest}},
        )
    if not out.absolute().parent.is_dir():
        raise click.UsageError(f"--out {out}: its folder does not exist")
    with _shown_progress(as_lines=as_json) as progress:
        taught = teach_folder(folder, load_model(backbone), settings, _warn, progress)
    digest = write(taught, out)
    report(as_json, _values(taught, out, digest, region), _text(taught, out, region, of))


def _warn(sentence: str) -> None:
    click.echo(f"edgemeta: {sentence}", err=True)


@contextmanager
def _shown_progress(*, as_lines: bool) -> Iterator[TeachProgress]:
    """A bar for each stage, or, for a program that reads it, a line for each step; on standard error."""
    with ExitStack() as bars:
        moves: dict[str, Progress] = {}

        def show(stage: str, done: int, total: int) -> None:
            if as_lines:
                click.echo(f"{stage}: {done} of {total}", err=True)
                return
            if stage not in moves:
                bars.close()
                moves[stage] = bars.enter_context(progress_bar(stage))
            moves[stage](done, total)

        yield show


def _values(taught: Taught, out: Path, digest: str, region: RegionConfig | None) -> dict[str, object]:
    found = taught.findings
    return {
        "path": str(out),
        "name": taught.model.name,
        "sha256": digest,
        "labels": list(taught.model.labels),
        "pictures": sum(taught.pictures.values()),
        "pictures_left_out": taught.left,
        "pictures_of_label": dict(taught.pictures),
        "accuracy": found.accuracy,
        "accuracy_interval": [found.low, found.high],
        "recall": dict(found.recall),
        "confusing": [
            {"picture": each.picture, "label": each.label, "taken_for": each.taken_for, "score": round(each.score, 6)}
            for each in found.confusions
        ],
        "nearly_the_same": [list(pair) for pair in found.alike],
        "warnings": list(found.warnings),
        "region": None if region is None else region.model_dump(),
    }


def _text(taught: Taught, out: Path, region: RegionConfig | None, of: str | None) -> list[str]:
    found = taught.findings
    total = sum(taught.pictures.values())
    lines = [
        f"{out}: {taught.model.name}, {len(taught.pictures)} classes, {total} pictures",
        f"accuracy {found.accuracy:.1%} of pictures held out (95 % interval {found.low:.0%} to {found.high:.0%}, "
        "if they are independent)",
    ]
    lines += [f"  {label:20} {share:6.1%} of {taught.pictures[label]}" for label, share in found.recall.items()]
    lines += _named_pictures(found)
    lines += [f"note: {sentence}" for sentence in found.warnings]
    if of is not None:
        return [*lines, "in the config:", "object_names:", f"  {_quoted(of)}: {_quoted(out.absolute())}"]
    return [*lines, "in the config of the camera:", *_config_lines(out, region)]


def _quoted(text: object) -> str:
    return json.dumps(str(text), ensure_ascii=False)


def _named_pictures(found: Findings) -> Iterator[str]:
    if found.confusions:
        yield f"pictures that confuse it ({len(found.confusions)}), the surest first:"
    for each in found.confusions[:_SHOWN]:
        yield f"  {each.picture}: taken for {each.taken_for}, {each.score:.0%}"
    if found.alike:
        yield "nearly the same, in different classes:"
    for one, other in found.alike[:_SHOWN]:
        yield f"  {one} and {other}"


def _config_lines(out: Path, region: RegionConfig | None) -> Iterator[str]:
    yield f"    model: {_quoted(out.absolute())}"
    if region is not None:
        yield "    region: {" + ", ".join(f"{key}: {value:g}" for key, value in region.model_dump().items()) + "}"
