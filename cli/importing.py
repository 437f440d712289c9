"""`import`: makes a model of an ONNX or TFLite file."""

from pathlib import Path
from typing import get_args

import click

from edgemeta.cli.import_settings import read_settings
from edgemeta.cli.options import json_option, remark, report, writes_files
from edgemeta.model.float_file import next_step
from edgemeta.model.graph import Align, Crop, FloatModel, Model
from edgemeta.model.layers import Shape
from edgemeta.model.tasks import Decoding, Detection, PointLayout, PointUnit, TaskName, task_name
from edgemeta.toolchain.importer.import_network import ImportResult, import_network

_path = click.Path(path_type=Path)
FAR = 0.01
"""Difference from a file's own runtime that is warned of."""


@click.command("import", short_help="Make a model of an ONNX or TFLite file.")
@click.argument("file", type=_path)
@click.option("--out", type=_path, required=True, metavar="FILE", help="The model to write.")
@click.option("--settings", "settings_file", type=_path, metavar="FILE", help="Options as YAML; default: FILE.yaml.")
@click.option("--mean", help="Subtracted from pixels: one number, or one for each channel. Default 0.")
@click.option("--std", help="Divides what is left. Default 1.")
@click.option("--colour", help="Letters of its channels: r, g, b, y (gray), a (alpha); or gray. Default rgb.")
@click.option("--crop", type=click.Choice(get_args(Crop)), help="How a frame fits the image. Default center.")
@click.option("--fill", help="Of a letterbox: pixels beside the frame, 0 .. 255. Default 0.")
@click.option("--align", type=click.Choice(get_args(Align)), help="Of a letterbox: where the frame is. Default center.")
@click.option("--size", metavar="HxW", help="Size of the image, where the file leaves it open.")
@click.option("--labels", metavar="FILE|coco", help="Labels, one on each line; coco: the 80 labels of COCO.")
@click.option("--task", type=click.Choice(get_args(TaskName)), help="What the outputs mean, if not recognized.")
@click.option("--outputs", metavar="NAME,...", help="Tensors of the file at which the network ends.")
@click.option("--decoding", type=click.Choice(get_args(Decoding)), help="Of a detection, if not recognized.")
@click.option("--anchors", metavar="W,H ...;...", help="In pixels, finest grid first, if the file has none.")
@click.option("--strides", metavar="S ...", help="Pixels from cell to cell, of each grid. Default image / grid.")
@click.option("--box-order", type=click.Choice(["xywh", "yxhw"]), help="Of ssd: yxhw for TensorFlow. Default xywh.")
@click.option("--score-threshold", type=float, help="Least score of an object, or of a label that is present.")
@click.option("--overlap-threshold", type=float, help="Of objects that overlap more, only the best remains.")
@click.option("--max-objects", type=int, help="Most objects of a frame.")
@click.option(
    "--point-layout", type=click.Choice(get_args(PointLayout)), help="Of keypoints: numbers of each. Default xy."
)
@click.option("--point-unit", type=click.Choice(get_args(PointUnit)), help="Of keypoints. Default pixels.")
@click.option("--point-names", metavar="NAME,...", help="Of the points of objects. Default: the family's, or numbers.")
@click.option("--name", help="Name of the model in messages and logs; default: that of the file.")
@json_option
@writes_files("out")
def import_(file: Path, out: Path, settings_file: Path | None, as_json: bool, **options: object) -> None:
    """Make a model of the ONNX or TFLite file FILE. Needs: pip install 'edgemeta[import]'.

    A float network becomes a float model, for `edgemeta quantize`. An int8 network (TFLite, or ONNX with QuantizeLinear
    and DequantizeLinear) keeps its integers and becomes a model that runs.

    The network takes (pixel - mean) / std with pixels 0 to 255. Its task is recognized: a classification, or a known
    family of detections with what it usually takes for an image; or --task states it. A YAML file has the same keys
    as the options, with _ for -: --settings, or FILE.yaml beside FILE; options count more. Operators, keys:
    docs/import.md.

    \b
    Examples:
      edgemeta import net.onnx --out net-float.safetensors --labels names.txt \\
          --mean 123.675,116.28,103.53 --std 58.395,57.12,57.375
      edgemeta import yolox_nano.onnx --out yolox-float.safetensors --labels coco
      edgemeta import yolov3-tiny.onnx --out yolo-float.safetensors --labels coco \\
          --anchors "10,14 23,27 37,58; 81,82 135,169 344,319"
      edgemeta import net_int8.tflite --out net.safetensors --std 255
      edgemeta import embedder.onnx --out embedder-float.safetensors --task embedding --outputs features
    """
    settings = read_settings(file, settings_file, options)
    result = import_network(
        file, out, settings.pixels(), settings.task_settings(), name=settings.name, size=settings.size
    )
    model = result.model
    values = {
        "path": str(result.path),
        "name": model.name,
        "quantized": isinstance(model, Model),
        "input": list(_image(model)),
        "task": task_name(model.task),
        **({"decoding": model.task.decoding} if isinstance(model.task, Detection) else {}),
        "layers": result.layers,
        "outputs": {key: list(shape) for key, shape in result.outputs.items()},
        "labels": len(model.labels),
        "notes": list(result.notes),
        "difference": result.difference,
    }
    report(as_json, values, _text(result))
    if result.difference is not None and result.difference > FAR:
        remark(
            f"warning: far from the file's own runtime, {result.difference:.0%} of an output's range: docs/import.md"
        )


def _text(result: ImportResult) -> list[str]:
    model = result.model
    height, width, channels = _image(model)
    counted = f", {len(model.labels)} labels" if model.labels else ""
    lines = [f"{result.path}: {model.name}, image {height}x{width}, {channels} channels"]
    lines.append(f"task {task_name(model.task)}{counted}")
    lines.append(", ".join(f"{count} {kind}" for kind, count in result.layers.items()))
    lines += [f"output {name}: {' x '.join(map(str, shape))}" for name, shape in result.outputs.items()]
    lines += [f"note: {note}" for note in result.notes]
    if result.difference is not None:
        lines.append(f"checked: at most {result.difference:.1e} of an output's range from the file's own runtime")
    if isinstance(model, Model):
        return [*lines, f"it runs as it is: edgemeta predict {result.path} IMAGE"]
    return [*lines, f"next: {next_step(result.path)}"]


def _image(model: FloatModel | Model) -> Shape:
    return model.input.shape if isinstance(model, Model) else model.input_shape
