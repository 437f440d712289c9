"""`model get`: downloads a known network and makes the model of it that everybody gets."""

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from edgemeta.cli.completion import known_names
from edgemeta.cli.import_settings import ImportSettings, labels_of
from edgemeta.cli.options import json_option, report, writes_files
from edgemeta.cli.progress import progress_bar
from edgemeta.model.atomic_write import write_atomically
from edgemeta.model.errors import KnownNetworkError
from edgemeta.model.float_file import next_step
from edgemeta.model.known.registry import KnownNetwork, RemoteFile, known_network, known_networks
from edgemeta.toolchain.importer.import_network import ImportResult, import_network
from edgemeta.toolchain.known.download import fetched, is_cached, taken
from edgemeta.toolchain.quantize.quantize import quantize
from edgemeta.toolchain.quantize.recorded import RecordedScheme

_path = click.Path(path_type=Path)
_MB = 1e6


@click.command(short_help="Download a known network and make its model.")
@click.argument("name", required=False, shell_complete=known_names)
@click.option("--out", type=_path, metavar="FILE", help="The model to write; default: NAME.safetensors.")
@click.option("--from", "source", type=_path, metavar="FILE", help="The network's file, instead of a download.")
@click.option("--float", "as_float", is_flag=True, help="The float model of a network that has recorded ranges.")
@click.option("--list", "is_list", is_flag=True, help="List the known networks.")
@click.option("--progress", is_flag=True, help="Say on standard error how much is downloaded, in lines.")
@json_option
@writes_files("out")
def get(
    name: str | None,
    out: Path | None,
    source: Path | None,
    as_float: bool,
    is_list: bool,
    progress: bool,
    as_json: bool,
) -> None:
    """Download the known network NAME of somebody else, check it, and make a model of it. Needs the extra `import`.

    Address, licence, settings and the digest of the model are in a registry of the package, so that everybody gets the
    same bits: docs/known-networks.md. A float network with recorded ranges becomes an integer model without
    calibration images; --float gives the float one, to quantize with images of your own camera. Files are kept in
    ~/.cache/edgemeta/networks. EDGEMETA_MIRROR is an address that stands for https:// in all of them.

    \b
    Examples:
      edgemeta model get --list
      edgemeta model get visual-wake-words
      edgemeta model get yolox-nano
      edgemeta model get yolox-nano --float --out yolox-float.safetensors
      edgemeta model get visual-wake-words --from vww_96_int8.tflite
    """
    if is_list == (name is not None):
        raise click.UsageError("expected the NAME of a known network, or --list")
    if name is None:
        report(as_json, _listed(), _table())
        return
    network, out = known_network(name), out or Path(f"{name}.safetensors")
    if as_float and network.gives == "integer":
        raise KnownNetworkError(f"{name}: its file holds integers, expected a float network for --float")
    model, result = make_known(name, network, source, as_float, progress)
    try:
        write_atomically(out, model)
    except OSError as error:
        raise KnownNetworkError(f"{out}: cannot be written: {error.strerror or error}") from None
    made = network.made(as_float)
    values = {"path": str(out), "name": name, "sha256": made.digest, "quantized": network.gives_integers(as_float)}
    stated = _values(network) | {"accuracy": made.accuracy.figure, "command": made.accuracy.command}
    report(as_json, values | {"notes": list(result.notes)} | stated, _text(out, network, result, as_float))


def make_known(
    name: str,
    network: KnownNetwork,
    source: Path | None = None,
    as_float: bool = False,
    in_lines: bool = False,
) -> tuple[bytes, ImportResult]:
    """The content of the model file of an entry, and what its import said. source: its file, if the user has it.

    as_float: the float model of a network with recorded ranges. in_lines: whether the progress of a download is lines,
    rather than a bar. Raises KnownNetworkError, ImportedFileError.
    """
    file = _file(network.file, in_lines) if source is None else taken(source, network.file)
    labels = None if network.labels is None else _file(network.labels, in_lines)
    if in_lines:
        click.echo("edgemeta: making the model", err=True)
    content, result = made_of(name, network, file, labels, as_float)
    found, wanted = hashlib.sha256(content).hexdigest(), network.made(as_float).digest
    if found != wanted:
        raise KnownNetworkError(
            f"{name}: what this edgemeta makes of it, with the onnx and onnxslim that are installed, has the SHA-256 "
            f"{found}, expected {wanted}: nothing is written. Without the check: edgemeta import {file}"
        )
    return content, result


def made_of(
    name: str, network: KnownNetwork, file: Path, labels: Path | None, as_float: bool = False
) -> tuple[bytes, ImportResult]:
    """The same of the file of an entry and that of its labels, whatever comes of it.

    Labels that repeat, as in ImageNet's list, get a number: messages name what they found by its label.
    """
    given = dict(network.settings)
    if labels is not None:
        given["labels"] = numbered(labels_of(str(labels)))
    settings = ImportSettings.model_validate(given)
    with TemporaryDirectory() as folder:
        made = Path(folder) / "model.safetensors"
        result = import_network(file, made, settings.pixels(), settings.task_settings(), name=name, size=settings.size)
        if network.recorded is not None and not as_float:
            quantize(made, made, RecordedScheme(network.recorded.path))
        return made.read_bytes(), result


def numbered(labels: Sequence[str]) -> tuple[str, ...]:
    """The labels, of which the second of a name is called "name 2", and so on."""
    counts: Counter[str] = Counter()
    found = []
    for label in labels:
        counts[label] += 1
        found.append(label if counts[label] == 1 else f"{label} {counts[label]}")
    return tuple(found)


def _file(file: RemoteFile, in_lines: bool) -> Path:
    if in_lines:
        last = -1

        def line(done: int, total: int) -> None:
            nonlocal last
            if last != (last := 100 * done // total):
                click.echo(f"edgemeta: downloading {file.name}: {last}%", err=True)

        return fetched(file, line)
    with progress_bar(file.name, wanted=not is_cached(file)) as bar:
        return fetched(file, bar)


def _values(network: KnownNetwork) -> dict[str, object]:
    return {
        "what": network.what,
        "licence": network.licence,
        "address": network.file.address,
        "bytes": network.file.size,
        "gives": network.gives,
        "recorded": network.recorded is not None,
        "accuracy": network.accuracy.figure,
        "command": network.accuracy.command,
    }


def _listed() -> Mapping[str, object]:
    return {"networks": {name: _values(each) for name, each in known_networks().items()}}


def _table() -> Iterator[str]:
    networks = known_networks()
    width = max(map(len, networks))
    for name, each in networks.items():
        size = f"{each.file.size / _MB:.1f} MB"
        gives = "integer" if each.gives_integers(as_float=False) else "float"
        yield f"{name:<{width}}  {size:>8}  {each.licence:<12}  {gives:<7}  {each.what}"


def _text(out: Path, network: KnownNetwork, result: ImportResult, as_float: bool) -> Iterator[str]:
    made = network.made(as_float)
    yield f"{out}: {network.what}, sha256 {made.digest[:12]}"
    yield f"licence {network.licence}, of {network.file.address}"
    yield f"measured: {made.accuracy.figure}"
    yield from (f"note: {note}" for note in result.notes)
    runs = network.gives_integers(as_float)
    yield f"it runs as it is: edgemeta predict {out} IMAGE" if runs else f"next: {next_step(out)}"
