"""Brings quantized ONNX graphs of other forms into one: QuantizeLinear and DequantizeLinear around float operators.

QOperator: integer operators that hold the scales of their operands (`QLinearConv` and its kin), between operators that
move integers. Dynamic: `DynamicQuantizeLinear` measures each image, so the float network of the weights' integers is
what remains.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import inf, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgemeta.toolchain.importer.network import Array


class QuantizedFormError(Exception):
    """A form of quantization that is not read; the text says which is wanted."""


@dataclass(frozen=True)
class _Form:
    """An operator of integers: the float operator, and at which inputs things are.

    operands: each followed by its scale and zero point. out: the result's scale, then its zero point; without them the
    result is float. bias: int32 in steps of the operands' product.
    """

    op: str
    operands: tuple[int, ...]
    out: int
    bias: int | None = None


_FORMS: Mapping[str, _Form] = {
    "QLinearConv": _Form("Conv", (0, 3), 6, bias=8),
    "QLinearMatMul": _Form("MatMul", (0, 3), 6),
    "QGemm": _Form("Gemm", (0, 3), 7, bias=6),
    "QLinearAdd": _Form("Add", (0, 3), 6),
    "QLinearMul": _Form("Mul", (0, 3), 6),
    "QLinearAveragePool": _Form("AveragePool", (0,), 3),
    "QLinearGlobalAveragePool": _Form("GlobalAveragePool", (0,), 3),
    "QLinearLeakyRelu": _Form("LeakyRelu", (0,), 3),
    "QLinearSigmoid": _Form("Sigmoid", (0,), 3),
    "QLinearSoftmax": _Form("Softmax", (0,), 3),
}
_MOVING = (
    *(
        "DepthToSpace",
        "Expand",
        "Flatten",
        "Gather",
        "GlobalMaxPool",
        "Identity",
        "MaxPool",
        "Pad",
        "Reshape",
        "Resize",
    ),
    *("Slice", "SpaceToDepth", "Split", "Squeeze", "Transpose", "Unsqueeze", "Upsample"),
)
"""Operators whose result has the scale of their input."""
_LEFT_OUT = ("channels_last", "opset")
"""Attributes that the float operators do not have."""
_REFUSED = ("QLinear", "QAttention", "QEmbed", "QGemm", "DynamicQuantize", "MatMulIntegerToFloat")


def in_qdq_form(proto: Any) -> None:
    """Change the graph in place. A graph of the QDQ form stays as it is. Raises QuantizedFormError."""
    kinds = {node.op_type for node in proto.graph.node}
    if any(kind.startswith((*_REFUSED, "ConvInteger", "MatMulInteger")) for kind in kinds):
        _Rewriter(proto).run()


def onnx_constants(proto: Any, largest: float = inf) -> dict[str, Array]:
    """The constants of a graph [...] of at most so many elements, by name."""
    import onnx

    stored = (each for each in proto.graph.initializer if prod(each.dims) <= largest)
    found = {each.name: onnx.numpy_helper.to_array(each) for each in stored}
    for node in proto.graph.node:
        if node.op_type == "Constant" and node.attribute and node.attribute[0].name == "value":
            found[node.output[0]] = onnx.numpy_helper.to_array(node.attribute[0].t)
    return found


class _Rewriter:
    """scales: names of scale and zero point of each integer tensor that is computed. nodes: those of the new graph."""

    def __init__(self, proto: Any) -> None:
        self.graph = proto.graph
        self.constants = onnx_constants(proto)
        self.scales: dict[str, tuple[str, str]] = {}
        self.nodes: list[Any] = []

    def run(self) -> None:
        for node in self.graph.node:
            if node.op_type == "QuantizeLinear":
                self.scales[node.output[0]] = node.input[1], _given(node, 2)
                self.nodes.append(node)
            elif node.op_type == "DynamicQuantizeLinear":
                self._dynamic(node)
            elif node.op_type in ("ConvInteger", "MatMulInteger"):
                self._integer_sums(node)
            elif node.op_type == "QLinearConcat":
                operands = [self._real(node, at) for at in range(2, len(node.input), 3)]
                self._add(node, "Concat", operands, (node.input[0], node.input[1]))
            elif node.op_type in _FORMS:
                self._of_form(node, _FORMS[node.op_type])
            elif node.op_type.startswith(_REFUSED):
                raise QuantizedFormError(
                    f"{node.op_type} {node.name!r} is of another form of quantization, expected QuantizeLinear and "
                    "DequantizeLinear around float operators (QuantFormat.QDQ), with constant scales"
                )
            elif node.op_type in _MOVING and node.input[0] in self.scales:
                scale = self.scales[node.input[0]]
                integers = [name in self.scales or self._is_byte(name) for name in node.input]
                operands = [
                    self._dequantized(name, *scale) if is_integer else name
                    for name, is_integer in zip(node.input, integers, strict=True)
                ]
                self._add(node, node.op_type, operands, scale)
            else:
                self.nodes.append(node)
        del self.graph.node[:]
        self.graph.node.extend(self.nodes)

    def _of_form(self, node: Any, form: _Form) -> None:
        if any(each.name == "channels_last" and each.i for each in node.attribute):
            raise QuantizedFormError(f"{node.op_type} {node.name!r} has its channels last, expected them in front")
        axis = 0 if form.op == "Conv" or _attribute(node, "transB") else 1
        operands = [self._real(node, at, axis) for at in form.operands]
        if form.bias is not None and _given(node, form.bias):
            steps = [self._constant(node, at + 1).astype(np.float64) for at in form.operands]
            scale = self._stored(node, "bias scale", (steps[0] * steps[1] * _attribute(node, "alpha", 1.0)).ravel())
            operands.append(self._dequantized(node.input[form.bias], scale, "", axis=0))
        out = _given(node, form.out)
        self._add(node, form.op, operands, (out, _given(node, form.out + 1)) if out else None)

    def _integer_sums(self, node: Any) -> None:
        """ConvInteger and MatMulInteger: the weights' integers as real numbers; their scale is a Mul behind it."""
        weights, zero = self._constant(node, 1), np.zeros((), np.int64)
        if _given(node, 3):
            zero = self._constant(node, 3).astype(np.int64)
        if zero.size > 1 and node.op_type == "ConvInteger":
            zero = zero.reshape(-1, *[1] * (weights.ndim - 1))
        real = self._stored(node, "weights", weights.astype(np.int64) - zero)
        op = node.op_type.removesuffix("Integer")
        self._add(node, op, [node.input[0], real], None)

    def _dynamic(self, node: Any) -> None:
        """The tensor itself, with a scale of 1 and a zero point of 0."""
        import onnx

        self.nodes.append(onnx.helper.make_node("Identity", [node.input[0]], [node.output[0]], name=node.name))
        for name, value in zip(node.output[1:], (np.float32(1), np.uint8(0)), strict=False):
            self._store(name, np.array(value))

    def _real(self, node: Any, at: int, axis: int = 1) -> str:
        return self._dequantized(node.input[at], node.input[at + 1], _given(node, at + 2), axis)

    def _dequantized(self, name: str, scale: str, zero: str, axis: int = 1) -> str:
        import onnx

        result = f"{name}.real {len(self.nodes)}"
        inputs = [name, scale, zero] if zero else [name, scale]
        self.nodes.append(onnx.helper.make_node("DequantizeLinear", inputs, [result], name=result, axis=axis))
        return result

    def _add(self, node: Any, op: str, operands: Iterable[str], scale: tuple[str, str] | None) -> None:
        """The float operator; with a scale, and QuantizeLinear behind it."""
        import onnx

        results = list(node.output) if scale is None else [f"{name}.real" for name in node.output]
        made = onnx.helper.make_node(op, list(operands), results, name=node.name)
        made.attribute.extend(each for each in node.attribute if each.name not in _LEFT_OUT)
        self.nodes.append(made)
        if scale is not None:
            for real, name in zip(results, node.output, strict=True):
                inputs = [real, *(each for each in scale if each)]
                self.nodes.append(onnx.helper.make_node("QuantizeLinear", inputs, [name], name=f"{node.name}.quantize"))
                self.scales[name] = scale

    def _constant(self, node: Any, at: int) -> Array:
        if node.input[at] not in self.constants:
            raise QuantizedFormError(f"{node.op_type} {node.name!r} has computed weights or scales, expected constants")
        return self.constants[node.input[at]]

    def _is_byte(self, name: str) -> bool:
        return name in self.constants and self.constants[name].dtype in (np.int8, np.uint8)

    def _stored(self, node: Any, what: str, values: NDArray[Any]) -> str:
        name = f"{node.output[0]}.{what}"
        self._store(name, values.astype(np.float32))
        return name

    def _store(self, name: str, values: Array) -> None:
        import onnx

        self.constants[name] = values
        self.graph.initializer.append(onnx.numpy_helper.from_array(values, name))


def _given(node: Any, at: int) -> str:
    """The name of an input, "" for one that is left out."""
    return str(node.input[at]) if len(node.input) > at else ""


def _attribute(node: Any, name: str, default: float = 0.0) -> float:
    found = next((each for each in node.attribute if each.name == name), None)
    return default if found is None else float(found.f if found.type == 1 else found.i)
