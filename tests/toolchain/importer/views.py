"""What ONNX Runtime must give, from the tensors of the float graph."""

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from edgemeta.model.graph import INPUT
from edgemeta.model.layers import Float32
from edgemeta.toolchain.importer.builder import Imported
from edgemeta.toolchain.importer.onnx_network import import_onnx
from edgemeta.toolchain.importer.values import Axes, Columns, Flat, Map, Pixels, Rows, Value


def seen(value: Value, tensors: dict[str, Float32]) -> Float32:
    """The ONNX tensor that a value stands for."""
    match value:
        case Map(tensor, _):
            return tensors[tensor].transpose(0, 3, 1, 2)
        case Flat(tensor, _, order):
            return (tensors[tensor] if order == "hwc" else tensors[tensor].transpose(0, 3, 1, 2)).reshape(1, -1)
        case Pixels(source):
            return tensors[source.tensor]
        case Rows(maps, width):
            return np.concatenate([tensors[each.tensor].reshape(1, -1, width) for each in maps], axis=1)
        case Columns(maps):
            rows = [tensors[each.tensor].reshape(1, -1, each.shape[2]) for each in maps]
            return np.concatenate(rows, axis=1).transpose(0, 2, 1)
        case Axes(source, axes, factor):
            parts = [part for axis in axes for part in axis]
            order = sorted(range(len(parts)), key=lambda each: -parts[each][1])
            split = tensors[source.tensor].reshape([parts[each][0] for each in order])
            return split.transpose(np.argsort(order)).reshape(value.shape) * np.float32(factor)
        case _:
            raise AssertionError(f"an output cannot be {value}")


def run(imported: Imported, image: Float32) -> dict[str, Float32]:
    """Outputs by ONNX name, of an image [1, C, H, W]."""
    tensors = {INPUT: np.ascontiguousarray(image.transpose(0, 2, 3, 1))}
    for layer in imported.layers:
        tensors[layer.name] = layer.reals([tensors[name] for name in layer.sources])
    return {name: seen(value, tensors) for name, value in imported.outputs.items()}


def expected(path: Path, image: Float32) -> list[NDArray[Any]]:
    """ONNX Runtime's outputs, in the order of the file.

    Its optimizations are off: they join a padding with zeros into a max pool, which then pads with the least number.
    """
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(path), options)
    outputs: list[NDArray[Any]] = session.run(None, {session.get_inputs()[0].name: image})
    return outputs


def largest_difference(path: Path, size: tuple[int, int] | None = None) -> float:
    """Between the imported network and ONNX Runtime on a random image, as a share of the output's range."""
    graph, imported = import_onnx(path, size)
    image = np.random.default_rng(0).normal(0, 1, graph.input_shape).astype(np.float32)
    found, shares = run(imported, image), []
    for name, wanted in zip(graph.outputs, expected(path, image), strict=True):
        got = found[name]
        if any("Softmax" in note for note in imported.notes):
            powers = np.exp(got - got.max())
            got = powers / powers.sum()
        assert got.shape == wanted.shape
        shares.append(float(np.abs(got - wanted).max() / max(float(np.ptp(wanted)), 1e-6)))
    return max(shares)
