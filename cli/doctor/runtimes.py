"""Runtimes of others behind one face: a name, and a call from an image's integers to its logits, on one thread.

The timed call copies the image in, runs, and reads the logits, by the fastest way that the runtime's Python has.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.graph import Model

Run = Callable[[NDArray[Any]], NDArray[Any]]
"""From [1, H, W, C] of our input's integers to [1, labels]."""


@dataclass(frozen=True)
class Runtime:
    """A runtime with the network loaded."""

    name: str
    weights: str
    run: Run


def litert(content: bytes, model: Model) -> Runtime:
    """LiteRT (TensorFlow Lite with XNNPACK) on a .tflite file of the same topology with int8 input."""
    try:
        from ai_edge_litert.interpreter import Interpreter
    except ImportError:  # its name until 2024, which the packages of older boards have
        from tflite_runtime.interpreter import Interpreter

    interpreter = Interpreter(model_content=content, num_threads=1)
    interpreter.allocate_tensors()
    source, target = interpreter.get_input_details()[0], interpreter.get_output_details()[0]
    if tuple(source["shape"][1:]) != model.input.shape or source["dtype"] != np.int8:
        raise ValueError(f"the file's input is {source['dtype']} {source['shape']}, expected int8 {model.input.shape}")

    def run(image: NDArray[Any]) -> NDArray[Any]:
        interpreter.set_tensor(source["index"], image)
        interpreter.invoke()
        logits: NDArray[Any] = interpreter.get_tensor(target["index"])
        return logits

    return Runtime("LiteRT int8", "MLPerf's", run)


def onnx_runtime(graph: bytes, model: Model) -> Runtime:
    """ONNX Runtime, all graph optimizations."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    codes = codes_of(model)
    binding = session.io_binding()
    name = session.get_outputs()[0].name
    logits = np.zeros((1, model.output_types[0].shape[2]), np.float32)
    binding.bind_input("image", "cpu", 0, np.uint8, codes.shape, codes.ctypes.data)
    binding.bind_output(name, "cpu", 0, np.float32, logits.shape, logits.ctypes.data)

    def run(image: NDArray[Any]) -> NDArray[Any]:
        fill(codes, image, model)
        session.run_with_iobinding(binding)
        return logits

    return Runtime("ONNX Runtime int8", "ours", run)


def codes_of(model: Model) -> NDArray[np.uint8]:
    """An image of unsigned integers [1, C, H, W], to be filled."""
    height, width, channels = model.input.shape
    return np.zeros((1, channels, height, width), np.uint8)


def fill(codes: NDArray[np.uint8], image: NDArray[Any], model: Model) -> None:
    """Copy an image [1, H, W, C] into codes [1, C, H, W], signed integers moved up by 128: their top bit flipped."""
    channels_first = image.view(np.uint8).transpose(0, 3, 1, 2)
    np.bitwise_xor(channels_first, np.uint8(128 if model.input.signed else 0), out=codes)
