"""The runtimes that a file is for, where they are installed: every tensor of a file for an image."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.layers import Float32
from edgemeta.toolchain.importer.network import Network
from edgemeta.toolchain.importer.onnx_weights import skeleton_of
from edgemeta.toolchain.importer.tflite_file import is_tflite

Runtime = Callable[[Float32], Mapping[str, NDArray[Any]]]
"""From an image [1, C, H, W] to the file's tensors by name."""


def runtime_of(path: Path, network: Network) -> Runtime:
    """What runs a file up to the network's outputs. Raises ImportError, or what a runtime raises for a wrong file."""
    return _Litert(path, network) if is_tflite(path) else _OnnxRuntime(path, network)


class _OnnxRuntime:
    """Its optimizations are off: they join a padding with zeros into a max pool, which then pads with the least."""

    def __init__(self, path: Path, network: Network) -> None:
        import onnx
        import onnxruntime

        path, skeleton = path.resolve(), skeleton_of(path)
        proto = onnx.load_from_string(skeleton.data) if skeleton else onnx.load(str(path))
        for tensor in proto.graph.initializer:
            if skeleton is not None and tensor.name in skeleton.places:  # the runtime reads it from the file
                start, end = skeleton.places[tensor.name]
                tensor.data_location = onnx.TensorProto.EXTERNAL
                for key, value in (("location", path.name), ("offset", start), ("length", end - start)):
                    tensor.external_data.add(key=key, value=str(value))
        if any(node.op_type == "DynamicQuantizeLinear" for node in proto.graph.node):
            raise ValueError("it rounds activations by what it measures of each image")
        made = {name for node in proto.graph.node for name in node.output}
        self._names = [name for name in network.outputs if name in made]
        known = {each.name for each in proto.graph.output}
        proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in self._names if name not in known)
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 4
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(path.parent))
        self._session = onnxruntime.InferenceSession(proto.SerializeToString(), options)
        (self._input,) = (each for each in self._session.get_inputs())
        self._order = network.input_order
        self._dtype = {"tensor(float16)": np.float16, "tensor(float)": np.float32}[self._input.type]

    def __call__(self, image: Float32) -> Mapping[str, NDArray[Any]]:
        given = _in_order(image, self._order).astype(self._dtype)
        given = given if len(self._input.shape) == 4 else given[0]
        return dict(zip(self._names, self._session.run(self._names, {self._input.name: given}), strict=True))


class _Litert:
    """With its plain kernels, which keep every tensor."""

    def __init__(self, path: Path, network: Network) -> None:
        from ai_edge_litert.interpreter import Interpreter, OpResolverType

        kernels = OpResolverType.BUILTIN_REF
        self._interpreter = Interpreter(
            str(path), experimental_op_resolver_type=kernels, experimental_preserve_all_tensors=True
        )
        self._interpreter.allocate_tensors()
        numbers = {name: number for number, name in enumerate(network.shapes)}
        self._numbers = {name: numbers[name] for name in network.outputs if name in numbers}
        self._input, self._order = numbers[network.input], network.input_order

    def __call__(self, image: Float32) -> Mapping[str, NDArray[Any]]:
        self._interpreter.set_tensor(self._input, np.ascontiguousarray(_in_order(image, self._order)))
        self._interpreter.invoke()
        return {name: self._interpreter.get_tensor(number) for name, number in self._numbers.items()}


def _in_order(image: Float32, order: str) -> Float32:
    return image if order == "chw" else image.transpose(0, 2, 3, 1)
