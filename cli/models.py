"""`backends` and `model`: list backends; get, inspect, rename and sign model files."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from math import prod
from pathlib import Path

import click

from edgemeta.cli.calibrating import calibrate
from edgemeta.cli.getting import get
from edgemeta.cli.model_info import float_lines, float_values, task_lines, task_values
from edgemeta.cli.options import any_model_argument, json_option, load_model, model_argument, report, writes_files
from edgemeta.cli.rejecting import reject
from edgemeta.model.address import MARK, Address
from edgemeta.model.file import parse, save
from edgemeta.model.float_file import is_float_model, load_float_model
from edgemeta.model.graph import Model
from edgemeta.model.layers import Layer, Weighted
from edgemeta.model.signature import SignatureError, make_key, signature_of
from edgemeta.model.signature import sign as signature_by
from edgemeta.model.tasks import task_name
from edgemeta.model.weights import BinaryWeights, FixedWeights, PowerOfTwoWeights
from edgemeta.model.zoo import is_shipped, names
from edgemeta.plugins.registry import probe_all

_WEIGHT_NAMES = {FixedWeights: "fixed", PowerOfTwoWeights: "pow2", BinaryWeights: "binary"}


@click.command(short_help="List the backends and their availability.")
@json_option
def backends(as_json: bool) -> None:
    """List the backends, whether each can run on this machine, and the reason if not.

    \b
    Examples:
      edgemeta backends
      edgemeta backends --json
    """
    probes = probe_all()
    values = {
        name: {"available": probe.available, "reason": probe.reason, "score": probe.score}
        for name, probe in probes.items()
    }
    width = max(map(len, probes), default=0)
    lines = (
        f"{name:<{width}}  {'available' if probe.available else 'not available'}: {probe.reason}"
        for name, probe in probes.items()
    )
    report(as_json, {"backends": values}, lines)


@click.group()
def model() -> None:
    """Get, inspect, rename and sign model files.

    \b
    Examples:
      edgemeta model list
      edgemeta model info resnet8-cifar10
      edgemeta model get visual-wake-words
      edgemeta model key maker.pem
      edgemeta model sign mine.safetensors --key maker.pem
    """


@model.command("list")
@json_option
def list_models(as_json: bool) -> None:
    """List the models shipped with the package."""
    report(as_json, {"models": list(names())}, names())


@model.command()
@any_model_argument
@json_option
def info(model_name: str, as_json: bool) -> None:
    """Show a model's layers, labels, size and provenance.

    \b
    Examples:
      edgemeta model info resnet8-cifar10
      edgemeta model info ./mine.safetensors --json
    """
    if is_float_model(Path(model_name)):
        float_path = Path(model_name)
        floating = load_float_model(float_path)
        report(as_json, float_values(floating, float_path), float_lines(floating, float_path))
        return
    loaded = load_model(model_name)
    rows = [_row(layer) for layer in loaded.layers]
    values = {
        "name": loaded.name,
        "sha256": loaded.digest,
        "input": {"shape": loaded.input.shape, "bits": loaded.input.bits, "signed": loaded.input.signed},
        "labels": loaded.labels,
        "task": task_name(loaded.task),
        "task_settings": task_values(loaded),
        "temperature": getattr(loaded.task, "temperature", None),
        "outputs": {name: kind.shape for name, kind in zip(loaded.outputs, loaded.output_types, strict=True)},
        "parameters": sum(row.parameters for row in rows),
        "macs": sum(row.macs for row in rows),
        "layers": [asdict(row) for row in rows],
        "provenance": dict(loaded.provenance),
    }
    report(as_json, values, _lines(loaded, rows))


@model.command(short_help="Copy a model file under another model name.")
@model_argument
@click.argument("name")
@click.option("--out", type=click.Path(path_type=Path), required=True, metavar="FILE", help="The model file to write.")
@json_option
@writes_files("out")
def rename(model_name: str, name: str, out: Path, as_json: bool) -> None:
    """Copy a model file with another model NAME for messages and logs; layers and weights stay the same.

    Adds a checksum to a file of an older edgemeta. The digest changes, so the new file must be signed again.

    \b
    Examples:
      edgemeta model rename ./mine.safetensors yard-2026 --out yard-2026.safetensors
    """
    digest = save(replace(load_model(model_name), name=name), out)
    report(as_json, {"path": str(out), "name": name, "sha256": digest}, [f"{out}: {name}, {MARK[1:]}{digest}"])


@model.command(short_help="Create a key for signing models.")
@click.argument("file", type=click.Path(path_type=Path))
@json_option
def key(file: Path, as_json: bool) -> None:
    """Create a key pair for signing models: the private key FILE, to be kept secret, and FILE.pub for the devices.

    Needs cryptography: pip install 'edgemeta[signature]'.

    \b
    Examples:
      edgemeta model key maker.pem
    """
    public = make_key(file)
    values = {"private": str(file), "public": str(public)}
    lines = [f"{file}: private key, keep it secret; {public}: public key, for `trust.public_key_files` of the devices"]
    report(as_json, values, lines)


@model.command(short_help="Sign a model file, after checking it.")
@model_argument
@click.option("--key", "key_file", type=click.Path(path_type=Path), required=True, metavar="FILE", help="Private key.")
@json_option
def sign(model_name: str, key_file: Path, as_json: bool) -> None:
    """Sign a model file: check it, then write the signature to MODEL.sig in the same folder.

    A shipped model is copied first (`edgemeta model rename`): the installed package is not written to.

    Needs cryptography: pip install 'edgemeta[signature]'.

    \b
    Examples:
      edgemeta model sign ./mine.safetensors --key maker.pem
    """
    file, data = Address.parse(model_name).read()
    digest = parse(data, file).digest
    if is_shipped(file):
        raise SignatureError(
            f"{file}: is a file of the installed package, expected a copy of your own: edgemeta model rename "
            f"{file.stem} {file.stem} --out FILE"
        )
    signature, place = signature_by(data, key_file), signature_of(file)
    try:
        place.write_bytes(signature)
    except OSError as error:
        raise SignatureError(f"{place}: cannot be written ({error.strerror})") from None
    report(
        as_json, {"path": str(place), "sha256": digest}, [f"{place}: signature of {file.name}, sha256 {digest[:12]}"]
    )


model.add_command(get)
model.add_command(reject)
model.add_command(calibrate)


@dataclass(frozen=True)
class _Row:
    """One row of the layer table; macs: multiply-accumulates per image."""

    name: str
    kind: str
    inputs: tuple[str, ...]
    shape: tuple[int, int, int]
    bits: int
    weights: str
    parameters: int
    macs: int


def _row(layer: Layer) -> _Row:
    shape = layer.output.shape
    weights, parameters, macs = "", 0, 0
    if isinstance(layer, Weighted):
        parameters = prod(layer.weights.shape)
        macs = parameters * shape[0] * shape[1]
        weights = _WEIGHT_NAMES[type(layer.weights)]
    return _Row(layer.name, type(layer).__name__, layer.sources, shape, layer.output.bits, weights, parameters, macs)


def _lines(model: Model, rows: list[_Row]) -> Iterator[str]:
    height, width, channels = model.input.shape
    yield f"{model.name}: {task_name(model.task)}, {len(model.labels)} labels, input {height}x{width}x{channels}"
    yield f"sha256 {model.digest}"
    if model.labels:
        yield f"labels {', '.join(model.labels)}"
    yield from task_lines(model)
    yield ""
    yield f"{'layer':<14} {'kind':<12} {'output':>12} {'bits':>4} {'weights':<9} {'params':>7} {'MACs':>10}"
    for row in rows:
        shape = "x".join(map(str, row.shape))
        yield (
            f"{row.name:<14} {row.kind:<12} {shape:>12} {row.bits:>4} {row.weights:<9} "
            f"{row.parameters:>7,} {row.macs:>10,}"
        ).rstrip()
    yield f"{'total':<55} {sum(row.parameters for row in rows):>7,} {sum(row.macs for row in rows):>10,}"
    if model.provenance:
        yield ""
    yield from _provenance_lines(model.provenance, "")


def _provenance_lines(value: object, key: str) -> Iterator[str]:
    """One line per value, such as `float.recipe: resnet8-cifar10`; the entries of a list are numbered from 1."""
    if isinstance(value, Mapping):
        for name, entry in value.items():
            yield from _provenance_lines(entry, f"{key}.{name}" if key else str(name))
    elif isinstance(value, list | tuple):
        for number, entry in enumerate(value, 1):
            yield from _provenance_lines(entry, f"{key}.{number}")
    else:
        yield f"{key}: {value}"
