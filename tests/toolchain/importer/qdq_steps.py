"""How far the integers of an imported QDQ network are from ONNX Runtime's, whole and layer by layer."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import TensorProto
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

from edgemeta.model.graph import INPUT
from edgemeta.model.layers import TensorType
from edgemeta.toolchain.importer.integer_network import IntegerNetwork, integer_network
from edgemeta.toolchain.importer.onnx_network import OPERATORS, import_onnx
from edgemeta.toolchain.importer.values import Axes
from tests.toolchain.importer.litert import Steps, _counted, _tensors, _trimmed, as_map, views_of

Array = NDArray[Any]


class QdqRuntime:
    """ONNX Runtime on a QDQ file, without optimizations; every quantized tensor can be read as integers."""

    def __init__(self, path: Path) -> None:
        self.network, self.imported = import_onnx(path)
        self.views = views_of(self.network, OPERATORS)
        self.made: IntegerNetwork = integer_network(self.network, self.imported, self.imported.tensors, path)
        proto = onnx.load(str(path))
        self._outputs = [each.name for each in proto.graph.output]
        kind = TensorProto.INT8
        kinds = {each.name: each.data_type for each in proto.graph.initializer}
        self._integers: dict[str, str] = {}  # of a float tensor, the integers that a QuantizeLinear makes of it
        for node in proto.graph.node:
            if node.op_type == "QuantizeLinear" and node.output[0] not in self._outputs:
                self._integers[node.input[0]] = node.output[0]
                kind = kinds[node.input[2]]
                proto.graph.output.append(onnx.helper.make_tensor_value_info(node.output[0], kind, None))
            elif node.op_type.startswith(("QLinear", "QGemm")) and node.output[0] not in self._outputs:
                self._integers[f"{node.output[0]}.real"] = node.output[0]  # as the import names its float result
                proto.graph.output.append(onnx.helper.make_tensor_value_info(node.output[0], kind, None))
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        self._session = onnxruntime.InferenceSession(proto.SerializeToString(), options)

    def __call__(self, image: Array) -> dict[str, Array]:
        """Integers by float tensor, and float outputs, of the real image [1, C, H, W]."""
        names = [*self._outputs, *self._integers.values()]
        found = dict(zip(names, self._session.run(names, {self.network.input: image}), strict=True))
        return found | {tensor: found[name] for tensor, name in self._integers.items()}


class Calibration(CalibrationDataReader):  # type: ignore[misc]
    """A few random images [1, C, H, W]."""

    def __init__(self, name: str, shape: tuple[int, ...]) -> None:
        rng = np.random.default_rng(8)
        self._images = iter([{name: rng.normal(0, 1, shape).astype(np.float32)} for _ in range(4)])

    def get_next(self) -> Any:
        return next(self._images, None)


def quantized(
    path: Path, kind: str = "QInt8", form: str = "QDQ", per_channel: bool = True, weights: str = "QInt8"
) -> Path:
    """The file as ONNX Runtime quantizes it, beside it."""
    image, target = onnx.load(str(path)).graph.input[0], path.with_suffix(f".{form}.onnx")
    shape = tuple(each.dim_value for each in image.type.tensor_type.shape.dim)
    quantize_static(
        str(path),
        str(target),
        Calibration(image.name, shape),
        quant_format=QuantFormat[form],
        activation_type=QuantType[kind],
        weight_type=QuantType[weights],
        per_channel=per_channel,
    )
    return target


def qdq_steps(path: Path, images: Array) -> Steps:
    """Compare the integer network of a QDQ file with ONNX Runtime on real images [N, C, H, W]."""
    runtime = QdqRuntime(path)
    made = runtime.made
    types = made.types
    outputs, layers, same = np.zeros(256, np.int64), np.zeros(256, np.int64), 0
    for image in images[:, np.newaxis]:
        theirs = runtime(image)
        first = np.rint(image.transpose(0, 2, 3, 1) / made.input.scale) + made.input.zero_point
        tensors = {INPUT: np.clip(first, made.input.lo, made.input.hi).astype(made.input.dtype)}
        whole = _tensors(made, tensors[INPUT])
        for layer in made.layers:
            found = layer.integers([tensors[n] for n in layer.sources], [types[n] for n in layer.sources])
            known = theirs.get(layer.name)
            if known is not None:
                integers = _as_map(known, layer.output, runtime.views.get(layer.name))
                layers += _counted(integers.astype(int).ravel(), found.astype(int).ravel())
                found = integers
            tensors[layer.name] = found
        ends = [(whole[name].ravel().astype(int), tensors[name].ravel().astype(int)) for name in made.outputs]
        for ours, wanted in ends:
            outputs += _counted(ours, wanted)
        same += int(ends[0][0].argmax() == ends[0][1].argmax())
    return Steps(_trimmed(outputs), _trimmed(layers), same / len(images))


def _as_map(found: Array, kind: TensorType, view: Axes | None) -> Array:
    """Integers [1, H, W, C] of an ONNX tensor, real or in integers already. view: how the map is seen as the tensor."""
    if found.dtype == np.float32:
        found = np.clip(np.rint(found / kind.scale) + kind.zero_point, kind.lo, kind.hi).astype(kind.dtype)
    seen = as_map(found, kind.shape, view)
    if seen is not None:
        return seen
    return found.transpose(0, 2, 3, 1) if found.ndim == 4 else found.reshape(1, *kind.shape)
