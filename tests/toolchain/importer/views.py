"""What ONNX Runtime must give, from the tensors of the float graph."""

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from edgemeta.model.layers import Float32
from edgemeta.toolchain.importer.onnx_network import import_onnx
from edgemeta.toolchain.importer.self_check import run


def expected(path: Path, image: Float32) -> list[NDArray[Any]]:
    """ONNX Runtime's outputs, in the order of the file.

    Its optimizations are off: they join a padding with zeros into a max pool, which then pads with the least number.
    """
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(path), options)
    outputs: list[NDArray[Any]] = session.run(None, {session.get_inputs()[0].name: image})
    return outputs


def largest_difference(path: Path, size: tuple[int, int] | None = None, deviation: float = 1.0) -> float:
    """Between the imported network and ONNX Runtime on a random image, as a share of the output's range.

    deviation: of the image's numbers, about that of the pixels that the network takes.
    """
    graph, imported = import_onnx(path, size)
    image = np.random.default_rng(0).normal(0, deviation, graph.input_shape).astype(np.float32)
    found, shares = run(imported, image), []
    for name, wanted in zip(graph.outputs, expected(path, image), strict=True):
        got = found[name]
        if any("Softmax" in note for note in imported.notes):
            powers = np.exp(got - got.max())
            got = powers / powers.sum()
        assert got.shape == wanted.shape
        shares.append(float(np.abs(got - wanted).max() / max(float(np.ptp(wanted)), 1e-6)))
    return max(shares)
