"""The last layer of an ONNX file replaced by a linear one for other labels, fitted to labelled pictures."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import numpy_helper

RIDGE = 1e-3
"""Of the mean square of the features: keeps the fit from following single pictures."""


def write_with_head(source: Path, pictures: Sequence[NDArray[np.float32]], labels: Sequence[int], out: Path) -> None:
    """Write the network with a last Gemm for these labels: ridge regression on what its own last Gemm reads.

    pictures: as the network takes them, [1, 3, H, W]. Each label's target is 1 for its pictures and 0 for others.
    """
    proto = onnx.load(str(source))
    gemm = proto.graph.node[-1]
    assert gemm.op_type == "Gemm", f"{source} ends with {gemm.op_type}, expected a Gemm"
    features = features_of(proto, gemm.input[0], pictures)
    targets = np.eye(max(labels) + 1)[list(labels)]
    mean, target = features.mean(0), targets.mean(0)
    centred = features - mean
    square = centred.T @ centred + RIDGE * len(centred) * np.mean(centred**2) * np.eye(features.shape[1])
    weights = np.linalg.solve(square, centred.T @ (targets - target)).T
    replaced = {gemm.input[1]: weights, gemm.input[2]: target - weights @ mean}
    for tensor in proto.graph.initializer:
        if tensor.name in replaced:
            tensor.CopyFrom(numpy_helper.from_array(replaced[tensor.name].astype(np.float32), tensor.name))
    del gemm.attribute[:]
    gemm.attribute.append(onnx.helper.make_attribute("transB", 1))
    del proto.graph.output[:]
    proto.graph.output.append(onnx.helper.make_tensor_value_info(gemm.output[0], 1, [1, len(target)]))
    onnx.save(proto, str(out))


def features_of(proto: onnx.ModelProto, name: str, pictures: Sequence[NDArray[np.float32]]) -> NDArray[np.float64]:
    """A tensor [N, C] of a network for each picture."""
    part = onnx.ModelProto()
    part.CopyFrom(proto)
    del part.graph.output[:]
    part.graph.output.append(onnx.helper.make_tensor_value_info(name, 1, None))
    session = onnxruntime.InferenceSession(part.SerializeToString(), providers=["CPUExecutionProvider"])
    key = session.get_inputs()[0].name
    return np.concatenate([session.run(None, {key: each})[0] for each in pictures]).astype(np.float64)
