"""Our integer network as an ONNX graph of quantize and dequantize nodes, for the runtimes that read ONNX.

The integers of the weights and the scales of the tensors are ours; a runtime rounds in its own way, so that its logits
are near ours, not equal. Signed tensors become uint8 with the zero point moved by 128, which those runtimes run faster.
"""

from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from edgemeta.model.graph import INPUT, Model
from edgemeta.model.layers import Add, AveragePool, Conv, Dense, Layer, TensorType

_OPSET = 17


class _Graph:
    """Nodes and constants in the making. A tensor's name stands for its dequantized value."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def constant(self, name: str, values: NDArray[Any]) -> str:
        self.constants.append(numpy_helper.from_array(np.array(values, order="C"), name))
        return name

    def node(self, kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(kind, inputs, [output], name=f"{kind}-{output}", **attributes))
        return output

    def quantization(self, name: str, kind: TensorType) -> list[str]:
        """Scale and zero point of a tensor as uint8."""
        zero_point = np.uint8(kind.zero_point + (128 if kind.signed else 0))
        scale = np.array(kind.scale, np.float32)
        return [self.constant(f"{name}.scale", scale), self.constant(f"{name}.zero", np.array(zero_point))]

    def quantized(self, real: str, name: str, kind: TensorType) -> str:
        """Quantize `real` to the tensor type and dequantize it again, as `name`."""
        parameters = self.quantization(name, kind)
        codes = self.node("QuantizeLinear", [real, *parameters], f"{name}.codes")
        return self.node("DequantizeLinear", [codes, *parameters], name)

    def weights(self, layer: Conv | Dense, input_scale: float) -> list[str]:
        """Dequantized int8 weights, [O, I, KH, KW] or [O, I], and their int32 bias."""
        name, decoded = layer.name, layer.weights.decode()
        shaped = decoded.transpose(0, 3, 1, 2) if isinstance(layer, Conv) else decoded
        scale = np.broadcast_to(layer.weights.scale, len(decoded)).astype(np.float32)
        bias = np.zeros(len(decoded), np.int32) if layer.bias is None else layer.bias
        values = {"weights": (shaped.astype(np.int8), scale), "bias": (bias, scale * np.float32(input_scale))}
        outputs = []
        for part, (integers, scales) in values.items():
            inputs = [
                self.constant(f"{name}.{part}.codes", integers),
                self.constant(f"{name}.{part}.scale", scales),
                self.constant(f"{name}.{part}.zero", np.zeros(len(decoded), integers.dtype)),
            ]
            outputs.append(self.node("DequantizeLinear", inputs, f"{name}.{part}", axis=0))
        return outputs


def to_onnx(model: Model) -> bytes:
    """Give the serialized graph: uint8 input [1, C, H, W], float32 output [1, labels].

    Knows what ResNet-8 is made of (Conv, Dense, Add, global AveragePool); raises ValueError on another layer.
    """
    graph = _Graph()
    types = model.types
    graph.node("DequantizeLinear", ["image", *graph.quantization(INPUT, model.input)], INPUT)
    for layer in model.layers:
        real = _real(graph, layer, types)
        if layer.output.bits != 32:
            graph.quantized(real, layer.name, layer.output)
    height, width, channels = model.input.shape
    image = helper.make_tensor_value_info("image", TensorProto.UINT8, [1, channels, height, width])
    logits = helper.make_tensor_value_info(
        f"{model.outputs[0]}.real", TensorProto.FLOAT, [1, model.output_types[0].shape[2]]
    )
    proto = helper.make_model(
        helper.make_graph(graph.nodes, model.name, [image], [logits], graph.constants),
        opset_imports=[helper.make_opsetid("", _OPSET)],
        ir_version=8,
    )
    onnx.checker.check_model(proto)
    serialized: bytes = proto.SerializeToString()
    return serialized


def _real(graph: _Graph, layer: Layer, types: dict[str, TensorType]) -> str:
    """Append what a layer computes on real numbers; gives the name of its value before quantization."""
    name, inputs = f"{layer.name}.real", list(layer.sources)
    match layer:
        case Conv():
            attributes = {"strides": layer.stride, "pads": layer.padding, "group": layer.groups}
            weights = graph.weights(layer, types[layer.input].scale)
            return graph.node("Conv", [*inputs, *weights], name, **attributes)
        case Dense():
            flat = graph.node("Flatten", inputs, f"{layer.name}.flat")
            return graph.node("Gemm", [flat, *graph.weights(layer, types[layer.input].scale)], name, transB=1)
        case Add():
            return graph.node("Add", inputs, name)
        case AveragePool() if layer.kernel == types[layer.input].shape[:2]:
            return graph.node("GlobalAveragePool", inputs, name)
    raise ValueError(f"{layer.name}: {type(layer).__name__} has no ONNX form here")
