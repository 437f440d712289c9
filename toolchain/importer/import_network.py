"""From a file of another program to a model file, with its preprocessing and task.

A float network becomes a float model, for `quantize`; one that the file stores in integers becomes a model that runs.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from edgemeta.model.file import save
from edgemeta.model.float_file import save_float_model
from edgemeta.model.graph import FloatModel, Model, channels_of
from edgemeta.model.layers import Shape
from edgemeta.model.prove_float import prove_float
from edgemeta.model.tasks import Detection
from edgemeta.toolchain.errors import ImportedFileError
from edgemeta.toolchain.importer.answers import without_answers
from edgemeta.toolchain.importer.builder import Imported, build_network
from edgemeta.toolchain.importer.heads.detection import renamed
from edgemeta.toolchain.importer.heads.ends import cut, require_tensors
from edgemeta.toolchain.importer.heads.levels import Level
from edgemeta.toolchain.importer.heads.probe import scales_pixels
from edgemeta.toolchain.importer.heads.task_settings import TaskSettings
from edgemeta.toolchain.importer.integer_model import integer_model, with_stored_range
from edgemeta.toolchain.importer.integer_network import integer_network
from edgemeta.toolchain.importer.network import ImageShape, Network
from edgemeta.toolchain.importer.onnx_file import read_onnx
from edgemeta.toolchain.importer.onnx_network import OPERATORS
from edgemeta.toolchain.importer.other_files import refuse_other_files
from edgemeta.toolchain.importer.pixels import Pixels
from edgemeta.toolchain.importer.self_check import difference
from edgemeta.toolchain.importer.stored_names import TURNED
from edgemeta.toolchain.importer.task import Meaning, meaning, recognize
from edgemeta.toolchain.importer.tflite_file import is_tflite, read_tflite
from edgemeta.toolchain.importer.tflite_network import TFLITE_OPERATORS
from edgemeta.toolchain.importer.unknown_ends import as_numbers
from edgemeta.toolchain.known.download import digest_of


@dataclass(frozen=True)
class ImportResult:
    """Result of `import_network`. layers: how many of each kind. notes: what was left out.

    difference: of the float network from the runtime that the file is for, as a share of an output's range; None where
    nothing could be compared.
    """

    path: Path
    model: FloatModel | Model
    layers: dict[str, int]
    outputs: dict[str, Shape]
    notes: tuple[str, ...]
    difference: float | None


def import_network(
    path: Path,
    out: Path,
    pixels: Pixels | Mapping[str, Any],
    settings: TaskSettings | None = None,
    *,
    name: str | None = None,
    size: tuple[int, int] | None = None,
) -> ImportResult:
    """Read an ONNX or TFLite file and write a model file.

    pixels: what it takes, or only what the user says of it; the rest is as usual for the family of detections that is
    recognized. settings: what its outputs mean, where that is not recognized. name: default the file's. size: H, W
    where the file leaves them open. Raises ImportedFileError.
    """
    settings = settings or TaskSettings()
    network, imported, found, usual = _read(path, size, settings)
    notes, is_open = found.notes, not isinstance(pixels, Pixels) and not {"mean", "deviation"} & set(pixels)
    if not isinstance(pixels, Pixels):
        if usual is not None and scales_pixels(network):
            usual = replace(usual, mean=(0.0,), deviation=(1.0,))
        if usual is not None and network.input_shape[1] == 1 and len(usual.mean) == 1:
            usual = replace(usual, colour="gray")
        one_channel = Pixels(colour="gray") if network.input_shape[1] == 1 else Pixels()
        stated = {} if imported.quantized else _stated(network, pixels)
        pixels = replace(usual or one_channel, **stated, **pixels)
        if stated:
            notes = (*notes, f"pixels, as the file says: {pixels.text()}")
        elif usual is not None:
            notes = (*notes, f"pixels, as usual for the family where no option says otherwise: {pixels.text()}")
        if not imported.quantized and usual is None and is_open and "mean" not in stated and not scales_pixels(network):
            notes = (*notes, "pixels are taken as they are, 0 to 255: nothing says otherwise but --mean and --std can")
    if not imported.quantized:
        network = replace(network, constants={})  # the layers have them
    _check_pixels(path, pixels, network.input_shape[1])
    provenance = {"imported": path.name, "sha256": digest_of(path)}
    model: FloatModel | Model
    if imported.quantized:
        kept = imported.with_parts(found.layers, found.parts)
        integers = integer_network(network, kept, found.outputs, path)
        task = found.task
        if is_open:
            pixels, note = with_stored_range(pixels, integers.input)
            notes = (*notes, *note)
        if isinstance(task, Detection):
            task = renamed(task, dict(zip(found.outputs, integers.outputs, strict=True)))
        model = integer_model(path, integers, pixels, task, name or path.stem, provenance)
        save(model, out)
        outputs = dict(zip(model.outputs, (kind.shape for kind in model.output_types), strict=True))
    else:
        model = FloatModel(
            name=name or path.stem,
            input_shape=_hwc(network.input_shape),
            layers=found.layers,
            outputs=found.outputs,
            task=found.task,
            mean=pixels.mean,
            scale=pixels.deviation,
            provenance=provenance,
            colour=pixels.colour,
            crop=pixels.crop,
            fill=pixels.fill,
            align=pixels.align,
        )
        shapes = prove_float(model, str(path))
        outputs = {each: shapes[each] for each in model.outputs}
        save_float_model(model, out)
    counts = Counter(type(layer).__name__ for layer in model.layers)
    off = difference(path, network, imported, pixels)
    return ImportResult(out, model, dict(sorted(counts.items())), outputs, notes, off)


def _read(
    path: Path, size: tuple[int, int] | None, settings: TaskSettings
) -> tuple[Network, Imported, Meaning, Pixels | None]:
    """The network of a file, its float layers, what its outputs mean, and what its family takes for a pixel."""
    refuse_other_files(path)
    if is_tflite(path):
        whole, operators = read_tflite(path, size), TFLITE_OPERATORS
        if settings.outputs:
            require_tensors(path, settings.outputs, [name for node in whole.nodes for name in node.outputs])
            whole = cut(whole, settings.outputs)
    else:
        whole, operators = read_onnx(path, size, settings.outputs), OPERATORS
    if whole.stored.task == TURNED and settings.task != "raw":
        raise ImportedFileError(
            f"{path}: its boxes are turned by an angle (task {TURNED}), which no detection here has{as_numbers(whole)}"
        )
    if settings.point_names is None and whole.stored.task == "pose" and whole.stored.points:
        settings = replace(settings, point_names=whole.stored.points)
    answered, is_choice = (whole, False) if settings.task == "raw" else without_answers(whole)
    network, heads = recognize(answered, settings, path)
    imported = build_network(network, operators, path)
    found = meaning(imported, heads, settings, network.stored.labels, is_choice, path)
    _, _, *sides = network.input_shape
    strides = [_stride(level, sides[1]) for level in heads.levels] if heads else []
    said = network.stored.contradictions((sides[0], sides[1]), found.task, max(strides, default=None))
    found = replace(found, notes=(*found.notes, *said))
    return network, imported, found, heads.family.pixels if heads else None


def _stated(network: Network, given: Mapping[str, Any]) -> dict[str, Any]:
    """What the file says of its pixels and the user does not, as far as it fits the channels."""
    channels, said = network.input_shape[1], dict(network.stored.pixels)
    if {"mean", "deviation"} & set(given) or any(len(said.get(key, "1")) not in (1, channels) for key in _NUMBERS):
        said = {key: value for key, value in said.items() if key not in _NUMBERS}
    if "colour" in given or len(channels_of(said.get("colour", "rgb"))) != channels:
        said.pop("colour", None)
    return said


_NUMBERS = ("mean", "deviation")


def _stride(level: Level, width: int) -> float:
    return level.stride[0] if level.stride else width / level.classes.end.shape[1]


def _hwc(shape: ImageShape) -> Shape:
    return shape[2], shape[3], shape[1]


def _check_pixels(path: Path, pixels: Pixels, channels: int) -> None:
    for numbers, option in ((pixels.mean, "--mean"), (pixels.deviation, "--std")):
        if len(numbers) not in (1, channels) or not np.isfinite(numbers).all():
            raise ImportedFileError(f"{path}: {option} has {len(numbers)} numbers, expected 1 or {channels}, finite")
    if min(pixels.deviation) <= 0:
        raise ImportedFileError(f"{path}: --std is {min(pixels.deviation):g}, expected numbers above 0")
    if len(channels_of(pixels.colour)) != channels:
        raise ImportedFileError(
            f"{path}: takes images of {channels} channels, found colour {pixels.colour}: expected a letter for each, "
            "such as rgb, bgr, y (gray) or rgba"
        )
