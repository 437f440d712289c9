"""`export`: writes a model for other programs."""

from pathlib import Path

import click

from edgemeta.cli.options import json_option, load_model, model_argument, report, writes_files
from edgemeta.toolchain.exporter.onnx_export import export_onnx


@click.command(short_help="Write a model as an ONNX file.")
@model_argument
@click.option(
    "--onnx", "file", type=click.Path(path_type=Path), required=True, metavar="FILE", help="The file to write."
)
@json_option
@writes_files("file")
def export(model_name: str, file: Path, as_json: bool) -> None:
    """Write an integer model as an ONNX file of the QDQ form. Needs: pip install 'edgemeta[import]'.

    The file's input "input" is float32 [1, C, H, W], what the network takes for the pixels; preprocessing is not in it.

    \b
    Examples:
      edgemeta export resnet8-cifar10 --onnx resnet8.onnx
    """
    model = load_model(model_name)
    export_onnx(model, file)
    kind = model.input
    values = {
        "path": str(file),
        "name": model.name,
        "input": {"shape": [1, kind.shape[2], *kind.shape[:2]], "scale": kind.scale, "zero_point": kind.zero_point},
        "outputs": [f"{name}.output" for name in model.outputs],
    }
    low, high = ((bound - kind.zero_point) * kind.scale for bound in (kind.lo, kind.hi))
    line = f"{file}: {model.name}, image 1x{kind.shape[2]}x{kind.shape[0]}x{kind.shape[1]} of {low:.4g} to {high:.4g}"
    report(as_json, values, [line])
