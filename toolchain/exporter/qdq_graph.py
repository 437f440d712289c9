"""Nodes and constants of an ONNX graph in the making, each tensor with a QuantizeLinear and a DequantizeLinear."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.layers import TensorType

OPSET = 17


class QdqGraph:
    """Tensors are [1, C, H, W]. dequantized: the real numbers that stand for a tensor's integers, by our name."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.dequantized: dict[str, str] = {}
        self._integers: dict[str, str] = {}

    def constant(self, name: str, values: NDArray[Any]) -> str:
        """A constant [...] under a name."""
        import onnx

        self.constants.append(onnx.numpy_helper.from_array(np.array(values, order="C"), name))
        return name

    def node(self, op: str, inputs: list[str], output: str, **attributes: Any) -> str:
        """One operation with one result, whose name is given back."""
        import onnx

        self.nodes.append(onnx.helper.make_node(op, inputs, [output], name=f"{output} ({op})", **attributes))
        return output

    def integers(self, name: str, kind: TensorType) -> str:
        """The integers that the real tensor `name` becomes."""
        return self.node("QuantizeLinear", [name, *self._parameters(name, kind)], f"{name}.integers")

    def integers_of(self, name: str) -> str:
        """The tensor of the integers of tensor `name`."""
        return self._integers[name]

    def real(self, integers: str, name: str, kind: TensorType) -> None:
        """Real numbers of the tensor of integers: what is read as tensor `name` from now on."""
        parameters = [f"{name}.scale", f"{name}.zero_point"]
        if not any(each.name == parameters[0] for each in self.constants):
            self._parameters(name, kind)
        self._integers[name] = integers
        self.dequantized[name] = self.node("DequantizeLinear", [integers, *parameters], f"{name}.real")

    def quantized(self, name: str, kind: TensorType) -> None:
        """Quantize the real tensor `name` and dequantize it again."""
        self.real(self.integers(name, kind), name, kind)

    def weights(self, name: str, values: NDArray[np.int8 | np.int32], scale: NDArray[np.float64]) -> str:
        """Dequantized integers [O, ...] with a scale for each element of the first axis, [O], or one for all."""
        scales = np.broadcast_to(scale, len(values)).astype(np.float32)
        zeros = np.zeros(len(values), values.dtype)
        parts = {"integers": values, "scale": scales, "zero_point": zeros}
        inputs = [self.constant(f"{name}.{part}", numbers) for part, numbers in parts.items()]
        return self.node("DequantizeLinear", inputs, name, axis=0)

    def _parameters(self, name: str, kind: TensorType) -> list[str]:
        scale, zero = np.array(kind.scale, np.float32), np.array(kind.zero_point, kind.dtype)
        return [self.constant(f"{name}.scale", scale), self.constant(f"{name}.zero_point", zero)]
