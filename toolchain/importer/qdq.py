"""Takes QuantizeLinear and DequantizeLinear out of an ONNX graph and notes what they say of its tensors.

What is left is the float network, and the integers, scale and zero point of each of its tensors (QDQ form, as ONNX
Runtime's quantize_static writes it). Without any such node the graph stays as it is.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgemeta.toolchain.importer.network import Array, Quantization

_OTHER_FORMS = ("QLinear", "QGemm", "ConvInteger", "MatMulInteger", "DynamicQuantizeLinear")
_KINDS = (np.int8, np.uint8)


class QuantizedFormError(Exception):
    """A form of quantization that is not read; the text says which is wanted."""


def take_out(proto: Any) -> dict[str, Quantization]:
    """Change the graph in place; how each tensor is quantized, by its name. Raises QuantizedFormError."""
    other = next((node for node in proto.graph.node if node.op_type.startswith(_OTHER_FORMS)), None)
    if other is not None:
        raise QuantizedFormError(
            f"{other.op_type} {other.name!r} is of another form of quantization, expected QuantizeLinear and "
            "DequantizeLinear around float operators (QuantFormat.QDQ), with constant scales"
        )
    if not any(node.op_type == "DequantizeLinear" for node in proto.graph.node):
        return {}
    return _Remover(proto).run()


class _Remover:
    """quantized: what a QuantizeLinear says of its result. same: another name of a tensor."""

    def __init__(self, proto: Any) -> None:
        self.graph = proto.graph
        self.constants = _constants(proto)
        self.known: dict[str, Quantization] = {}
        self.quantized: dict[str, tuple[str, Quantization]] = {}
        self.same: dict[str, str] = {}

    def run(self) -> dict[str, Quantization]:
        import onnx

        kept: list[Any] = []
        for node in self.graph.node:
            if node.op_type == "QuantizeLinear":
                kept += self._quantize(node)
            elif node.op_type == "DequantizeLinear":
                self._dequantize(node)
            elif node.op_type == "Identity" and node.input[0] not in self.constants and not self._is_output(node):
                self.same[node.output[0]] = self.same.get(node.input[0], node.input[0])
            else:
                if any(name in self.quantized for name in node.input):
                    raise QuantizedFormError(f"{node.op_type} {node.name!r} reads integers, expected DequantizeLinear")
                for number, name in enumerate(node.input):
                    node.input[number] = self.same.get(name, name)
                if node.op_type == "Identity" and node.input[0] in self.known:
                    self.known[node.output[0]] = self.known[node.input[0]]  # onnxslim keeps this name
                kept.append(node)
        for each in self.graph.output:
            if each.name in self.quantized:
                each.name, _ = self.quantized[each.name]
                each.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
                each.name = self.same.get(each.name, each.name)
            elif each.name in self.same:
                kept.append(onnx.helper.make_node("Identity", [self.same[each.name]], [each.name]))
        del self.graph.node[:]
        self.graph.node.extend(kept)
        return self.known

    def _is_output(self, node: Any) -> bool:
        return any(each.name in node.output for each in self.graph.output)

    def _quantize(self, node: Any) -> list[Any]:
        """Note a QuantizeLinear; gives a Clip without bounds where a tensor gets other integers than it has already."""
        import onnx

        source, how = self.same.get(node.input[0], node.input[0]), self._how(node)
        if how.zero_point.size != 1 and source not in self.constants:
            raise QuantizedFormError(f"{node.name!r} has a scale for each channel of a computed tensor, expected one")
        if source in self.constants:  # weights that are stored as float
            self._store(node.output[0], _integers(self.constants[source], how, _axis(node)))
            return []
        earlier = self.known.setdefault(source, how)
        if (earlier.scale[0], earlier.zero_point[0]) == (how.scale[0], how.zero_point[0]):
            self.quantized[node.output[0]] = source, how
            return []
        again = f"{source}.requantized {len(self.known)}"
        self.known[again] = how
        self.quantized[node.output[0]] = again, how
        return [onnx.helper.make_node("Clip", [source], [again], name=node.name)]

    def _dequantize(self, node: Any) -> None:
        source, result = node.input[0], node.output[0]
        if source in self.constants:
            how = self._how(node)
            stored = self.constants[source]
            self.known[result] = Quantization(how.scale, how.zero_point, stored.dtype != np.uint8, stored)
            self._store(result, _real(stored, how, _axis(node)))
        elif source in self.quantized:
            tensor, how = self.quantized[source]
            self.same[result], self.known[result] = tensor, how
        else:
            raise QuantizedFormError(f"{node.name!r} reads integers that are computed, expected QuantizeLinear")

    def _how(self, node: Any) -> Quantization:
        """Scale and zero point of a node."""
        scale = self.constants.get(node.input[1])
        given = len(node.input) > 2 and bool(node.input[2])
        zero = self.constants.get(node.input[2]) if given else np.zeros(1, np.uint8)
        if scale is None or zero is None or scale.ndim > 1:
            raise QuantizedFormError(f"{node.name!r} has a computed scale or one for each block, expected constants")
        scales, zeros = scale.ravel().astype(np.float64), zero.ravel()
        if not (np.isfinite(scales).all() and (scales > 0).all()):
            raise QuantizedFormError(f"{node.name!r} has a scale that is not above 0")
        if node.op_type == "QuantizeLinear" and zeros.dtype not in _KINDS:
            raise QuantizedFormError(f"{node.name!r} makes {zeros.dtype}, expected int8 or uint8")
        zeros = np.broadcast_to(zeros, scales.shape)
        return Quantization(scales, zeros.astype(np.int64), zeros.dtype != np.uint8)

    def _store(self, name: str, values: Array) -> None:
        import onnx

        self.constants[name] = values
        self.graph.initializer.append(onnx.numpy_helper.from_array(values, name))


def _constants(proto: Any) -> dict[str, Array]:
    import onnx

    found = {each.name: onnx.numpy_helper.to_array(each) for each in proto.graph.initializer}
    for node in proto.graph.node:
        if node.op_type == "Constant" and node.attribute and node.attribute[0].name == "value":
            found[node.output[0]] = onnx.numpy_helper.to_array(node.attribute[0].t)
    return found


def _axis(node: Any) -> int:
    return next((int(each.i) for each in node.attribute if each.name == "axis"), 1)


def _along(numbers: NDArray[Any], values: Array, axis: int) -> NDArray[Any]:
    """One number, or one for each element of an axis."""
    if numbers.size == 1:
        return numbers.reshape(())
    sides = [1] * values.ndim
    sides[axis] = -1
    if values.shape[axis] != numbers.size:
        raise QuantizedFormError(f"{numbers.size} scales for a constant of shape {values.shape}")
    return numbers.reshape(sides)


def _real(stored: Array, how: Quantization, axis: int) -> Array:
    zero, scale = _along(how.zero_point, stored, axis), _along(how.scale, stored, axis)
    real: Array = ((stored.astype(np.float64) - zero) * scale).astype(np.float32)
    return real


def _integers(real: Array, how: Quantization, axis: int) -> Array:
    zero, scale = _along(how.zero_point, real, axis), _along(how.scale, real, axis)
    limits = np.iinfo(np.int8 if how.signed else np.uint8)
    integers: Array = np.clip(np.rint(real / scale) + zero, limits.min, limits.max).astype(limits.dtype)
    return integers
