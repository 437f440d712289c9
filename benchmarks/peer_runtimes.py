"""Each runtime behind one face: a name, and a call from an image's integers to its logits, on one thread.

The timed call copies the image in, runs, and reads the logits, by the fastest way that the runtime's Python has.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.graph import Model
from edgemeta.plugins.registry import choose

Run = Callable[[NDArray[Any]], NDArray[Any]]
"""From [1, H, W, C] of our input's integers to [1, labels]."""


@dataclass(frozen=True)
class Runtime:
    """A runtime with the network loaded."""

    name: str
    weights: str
    run: Run


def edgemeta(model: Model, isa: str) -> Runtime:
    """Our own cpu backend."""
    session = choose("cpu").compile(model, {"isa": isa})
    name = f"edgemeta {session.isa}"  # type: ignore[attr-defined]
    return Runtime(name, "ours", lambda image: session.run(image)[0])


def litert(file: Path, model: Model) -> Runtime:
    """LiteRT (TensorFlow Lite with XNNPACK) on a .tflite file of the same topology with int8 input."""
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(str(file), num_threads=1)
    interpreter.allocate_tensors()
    source, target = interpreter.get_input_details()[0], interpreter.get_output_details()[0]
    if tuple(source["shape"][1:]) != model.input.shape or source["dtype"] != np.int8:
        raise ValueError(f"{file}: the input is {source['dtype']} {source['shape']}, expected int8 {model.input.shape}")

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
    codes = _codes(model)
    binding = session.io_binding()
    name = session.get_outputs()[0].name
    logits = np.zeros((1, model.output_types[0].shape[2]), np.float32)
    binding.bind_input("image", "cpu", 0, np.uint8, codes.shape, codes.ctypes.data)
    binding.bind_output(name, "cpu", 0, np.float32, logits.shape, logits.ctypes.data)

    def run(image: NDArray[Any]) -> NDArray[Any]:
        _fill(codes, image, model)
        session.run_with_iobinding(binding)
        return logits

    return Runtime("ONNX Runtime int8", "ours", run)


def openvino(graph: bytes, model: Model) -> Runtime:
    """OpenVINO, latency mode."""
    from openvino import Core, Tensor

    core = Core()
    settings = {"INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY"}
    request = core.compile_model(core.read_model(graph), "CPU", settings).create_infer_request()
    codes = _codes(model)
    request.set_input_tensor(Tensor(codes, shared_memory=True))
    logits = request.get_output_tensor().data

    def run(image: NDArray[Any]) -> NDArray[Any]:
        _fill(codes, image, model)
        request.infer()
        return logits  # type: ignore[no-any-return]

    return Runtime("OpenVINO int8", "ours", run)


def _codes(model: Model) -> NDArray[np.uint8]:
    height, width, channels = model.input.shape
    return np.zeros((1, channels, height, width), np.uint8)


def _fill(codes: NDArray[np.uint8], image: NDArray[Any], model: Model) -> None:
    """Copy the image in, channels first, signed integers moved up by 128: their top bit flipped."""
    channels_first = image.view(np.uint8).transpose(0, 3, 1, 2)
    np.bitwise_xor(channels_first, np.uint8(128 if model.input.signed else 0), out=codes)
