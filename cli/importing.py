"""`import`: makes a model of an ONNX or TFLite file."""

from pathlib import Path
from typing import get_args

import click

from edgemeta.cli.options import json_option, report
from edgemeta.model.graph import Model
from edgemeta.toolchain.float_model.graph import Colour
from edgemeta.toolchain.importer.heads.task_settings import TaskSettings
from edgemeta.toolchain.importer.import_network import ImportResult, import_network
from edgemeta.toolchain.importer.pixels import Pixels

_path = click.Path(path_type=Path)


def _numbers(_ctx: click.Context, _param: click.Parameter, value: str) -> tuple[float, ...]:
    try:
        return tuple(float(each) for each in value.split(","))
    except ValueError:
        raise click.BadParameter(f"found {value!r}, expected numbers with commas between them") from None


def _size(_ctx: click.Context, _param: click.Parameter, value: str | None) -> tuple[int, int] | None:
    if value is None:
        return None
    height, _, width = value.partition("x")
    if not (height.isascii() and height.isdigit() and width.isascii() and width.isdigit() and int(height) * int(width)):
        raise click.BadParameter(f"found {value!r}, expected height x width, such as 224x224")
    return int(height), int(width)


@click.command("import", short_help="Make a model of an ONNX or TFLite file.")
@click.argument("file", type=_path)
@click.option("--out", type=_path, required=True, metavar="FILE", help="The model to write.")
@click.option("--mean", default="0", show_default=True, callback=_numbers, help="Subtracted from pixels.")
@click.option("--std", default="1", show_default=True, callback=_numbers, help="Divides what is left.")
@click.option(
    "--colour", type=click.Choice(get_args(Colour)), default="rgb", show_default=True, help="Order of the channels."
)
@click.option("--labels", type=_path, metavar="FILE", help="Names of the classes, one on each line.")
@click.option("--size", callback=_size, metavar="HxW", help="Size of the image, where the file leaves it open.")
@click.option("--name", help="Name of the model in messages and logs; default: that of the file.")
@json_option
def import_(
    file: Path,
    out: Path,
    mean: tuple[float, ...],
    std: tuple[float, ...],
    colour: Colour,
    labels: Path | None,
    size: tuple[int, int] | None,
    name: str | None,
    as_json: bool,
) -> None:
    """Make a model of the ONNX or TFLite file FILE. Needs: pip install 'edgemeta[import]'.

    A float network becomes a float model, for `edgemeta quantize`. An int8 network (TFLite, or ONNX with QuantizeLinear
    and DequantizeLinear) keeps its integers and becomes a model that runs.

    The network takes (pixel - mean) / std with pixels 0 to 255. Operators: docs/import.md.

    \b
    Examples:
      edgemeta import net.onnx --out net-float.safetensors --labels names.txt
      edgemeta import net.onnx --out net-float.safetensors \\
          --mean 123.675,116.28,103.53 --std 58.395,57.12,57.375
      edgemeta import net_int8.tflite --out net.safetensors --std 255
    """
    settings = TaskSettings(labels=_lines(labels) if labels else None)
    result = import_network(file, out, Pixels(mean, std, colour), settings, name=name, size=size)
    values = {
        "path": str(result.path),
        "name": result.model.name,
        "quantized": isinstance(result.model, Model),
        "input": list(result.model.input.shape if isinstance(result.model, Model) else result.model.input_shape),
        "layers": result.layers,
        "outputs": {key: list(shape) for key, shape in result.outputs.items()},
        "labels": len(result.model.labels),
        "notes": list(result.notes),
    }
    report(as_json, values, _text(result))


def _lines(path: Path) -> tuple[str, ...]:
    try:
        return tuple(line.strip() for line in path.read_text("utf-8").splitlines() if line.strip())
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise click.BadParameter(f"{path} cannot be read: {reason}", param_hint="--labels") from None


def _text(result: ImportResult) -> list[str]:
    model = result.model
    height, width, channels = model.input.shape if isinstance(model, Model) else model.input_shape
    lines = [f"{result.path}: {model.name}, image {height}x{width}, {channels} channels"]
    lines.append(", ".join(f"{count} {kind}" for kind, count in result.layers.items()))
    lines += [f"output {name}: {' x '.join(map(str, shape))}" for name, shape in result.outputs.items()]
    lines += [f"note: {note}" for note in result.notes]
    if isinstance(model, Model):
        lines.append(f"it runs as it is: edgemeta classify {result.path} IMAGE")
    else:
        lines.append(f"next: edgemeta quantize {result.path} --calibrate IMAGES --out MODEL")
    return lines
