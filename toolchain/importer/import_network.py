"""From a file of another program to a model file, with its preprocessing and task.

A float network becomes a float model, for `quantize`; one that the file stores in integers becomes a model that runs.
"""

import hashlib
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from edgemeta.model.file import save
from edgemeta.model.graph import Model
from edgemeta.toolchain.errors import ImportedFileError
from edgemeta.toolchain.float_model.file import save_float_model
from edgemeta.toolchain.float_model.graph import (
    INPUT,
    Add,
    BatchNorm,
    Concat,
    FloatLayer,
    FloatModel,
    Product,
    Shape,
    check,
    inputs_of,
)
from edgemeta.toolchain.importer.builder import Imported, build_network, float32
from edgemeta.toolchain.importer.heads.task_settings import TaskSettings
from edgemeta.toolchain.importer.integer_model import integer_model
from edgemeta.toolchain.importer.integer_network import integer_network
from edgemeta.toolchain.importer.network import ImageShape, Network
from edgemeta.toolchain.importer.onnx_file import read_onnx
from edgemeta.toolchain.importer.onnx_network import OPERATORS
from edgemeta.toolchain.importer.pixels import Pixels
from edgemeta.toolchain.importer.task import Meaning, meaning, recognize
from edgemeta.toolchain.importer.tflite_file import IDENTIFIER
from edgemeta.toolchain.importer.tflite_network import import_tflite

NORMALIZATION = "normalization"
"""Name of the layer that subtracts means and divides by deviations where they differ between channels."""


@dataclass(frozen=True)
class ImportResult:
    """Result of `import_network`. layers: how many of each kind. notes: what was left out."""

    path: Path
    model: FloatModel | Model
    layers: dict[str, int]
    outputs: dict[str, Shape]
    notes: tuple[str, ...]


def import_network(
    path: Path,
    out: Path,
    pixels: Pixels,
    settings: TaskSettings | None = None,
    *,
    name: str | None = None,
    size: tuple[int, int] | None = None,
) -> ImportResult:
    """Read an ONNX or TFLite file and write a model file.

    settings: what its outputs mean, where that is not recognized. name: default the file's. size: H, W where the file
    leaves them open. Raises ImportedFileError.
    """
    settings = settings or TaskSettings()
    network, imported, found = _read(path, size, settings)
    _check_pixels(path, pixels, network.input_shape[1])
    provenance = {"imported": path.name, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    model: FloatModel | Model
    if imported.quantized:
        kept = replace(imported, layers=found.layers)
        integers = integer_network(network, kept, found.outputs, path)
        model = integer_model(path, integers, pixels, found.task, name or path.stem, provenance)
        save(model, out)
        outputs = dict(zip(model.outputs, (kind.shape for kind in model.output_types), strict=True))
    else:
        layers, mean, scale = _normalized(found.layers, pixels, network.input_shape[1])
        model = FloatModel(
            name=name or path.stem,
            input_shape=_hwc(network.input_shape),
            layers=layers,
            outputs=found.outputs,
            task=found.task,
            mean=mean,
            scale=scale,
            provenance=provenance,
            colour=pixels.colour,
            crop=pixels.crop,
            fill=pixels.fill,
            align=pixels.align,
        )
        shapes = check(model, str(path))
        outputs = {each: shapes[each] for each in model.outputs}
        save_float_model(model, out)
    counts = Counter(type(layer).__name__ for layer in model.layers)
    return ImportResult(out, model, dict(sorted(counts.items())), outputs, found.notes)


def _read(path: Path, size: tuple[int, int] | None, settings: TaskSettings) -> tuple[Network, Imported, Meaning]:
    """The network of a file, its float layers, and what its outputs mean."""
    try:
        with path.open("rb") as file:
            is_tflite = file.read(8)[4:] == IDENTIFIER
    except OSError as error:
        raise ImportedFileError(f"{path}: cannot be read: {error.strerror or error}") from None
    if is_tflite:
        network, imported = import_tflite(path, size)
        if settings.task == "detection" or settings.outputs or settings.decoding:
            raise ImportedFileError(f"{path}: is a TFLite file, of which detections cannot be imported yet")
        return network, imported, meaning(imported, None, settings, path)
    network, heads = recognize(read_onnx(path, size, settings.outputs), settings, path)
    imported = build_network(network, OPERATORS, path)
    return network, imported, meaning(imported, heads, settings, path)


def _hwc(shape: ImageShape) -> Shape:
    return shape[2], shape[3], shape[1]


def _check_pixels(path: Path, pixels: Pixels, channels: int) -> None:
    for numbers, option in ((pixels.mean, "--mean"), (pixels.deviation, "--std")):
        if len(numbers) not in (1, channels) or not np.isfinite(numbers).all():
            raise ImportedFileError(f"{path}: {option} has {len(numbers)} numbers, expected 1 or {channels}, finite")
    if min(pixels.deviation) <= 0:
        raise ImportedFileError(f"{path}: --std is {min(pixels.deviation):g}, expected numbers above 0")
    if (pixels.colour == "gray") != (channels == 1) or channels not in (1, 3):
        raise ImportedFileError(
            f"{path}: takes images of {channels} channels, found colour {pixels.colour}: expected gray for 1, rgb or "
            "bgr for 3"
        )


def _normalized(
    layers: tuple[FloatLayer, ...], pixels: Pixels, channels: int
) -> tuple[tuple[FloatLayer, ...], float, float]:
    """The layers, mean and scale: as numbers of the model if the integer input can have them, else as a first layer."""
    mean, deviation = pixels.mean[0], pixels.deviation[0]
    is_whole = mean == int(mean) and 0 <= mean <= 255
    if len(set(pixels.mean)) == 1 and len(set(pixels.deviation)) == 1 and is_whole:
        return layers, mean, deviation
    means, deviations = (np.resize(np.array(each), channels) for each in (pixels.mean, pixels.deviation))
    one, zero = np.ones(channels), np.zeros(channels)
    first = BatchNorm(
        NORMALIZATION, INPUT, float32(one), float32(zero), float32(means), float32(deviations**2), eps=0.0
    )
    return (first, *(_reading(layer, NORMALIZATION) for layer in layers)), 0.0, 1.0


def _reading(layer: FloatLayer, name: str) -> FloatLayer:
    """The layer, with another tensor for the input of the network."""
    if INPUT not in inputs_of(layer):
        return layer
    first, *others = (name if each == INPUT else each for each in inputs_of(layer))
    match layer:
        case Add() | Product():
            return replace(layer, inputs=(first, others[0]))
        case Concat():
            return replace(layer, inputs=(first, *others))
        case _:
            return replace(layer, input=first)
