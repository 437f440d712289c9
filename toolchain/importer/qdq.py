"""Takes QuantizeLinear and DequantizeLinear out of an ONNX graph and notes what they say of its tensors.

What is left is the float network, and the integers, scale and zero point of each of its tensors (QDQ form, as ONNX
Runtime's quantize_static writes it). Without any such node the graph stays as it is.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgemeta.toolchain.importer.network import Array, Quantization
from edgemeta.toolchain.importer.other_forms import QuantizedFormError, in_qdq_form, onnx_constants

_KINDS = (np.int8, np.uint8)
_WIDE_KINDS = (np.int16, np.uint16)


def take_out(proto: Any) -> tuple[dict[str, Quantization], bool]:
    """Change the graph in place. Raises QuantizedFormError.

    Gives how each tensor is quantized, by its name, and whether activations have 16 bits: then no tensor is in the
    list, and the graph is the float network that the integers represent. Other forms are brought into this one before.
    """
    in_qdq_form(proto)
    if not any(node.op_type == "DequantizeLinear" for node in proto.graph.node):
        return {}, False
    remover = _Remover(proto)
    return remover.run(), remover.is_wide


class _Remover:
    """quantized: what a QuantizeLinear says of its result. same: another name of a tensor.

    is_wide: a computed tensor has 16 bits.
    """

    def __init__(self, proto: Any) -> None:
        self.graph = proto.graph
        self.constants = onnx_constants(proto)
        self.known: dict[str, Quantization] = {}
        self.quantized: dict[str, tuple[str, Quantization]] = {}
        self.same: dict[str, str] = {}
        made = (node for node in self.graph.node if node.op_type == "QuantizeLinear")
        self.is_wide = any(self._kind(node) in _WIDE_KINDS for node in made)

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
        return {} if self.is_wide else self.known

    def _is_output(self, node: Any) -> bool:
        return any(each.name in node.output for each in self.graph.output)

    def _quantize(self, node: Any) -> list[Any]:
        """Note a QuantizeLinear; gives a Clip without bounds where a tensor gets other integers than it has already."""
        import onnx

        source, how = self.same.get(node.input[0], node.input[0]), self._how(node)
        if how.zero_point.size != 1 and source not in self.constants:
            raise QuantizedFormError(f"{node.name!r} has a scale for each channel of a computed tensor, expected one")
        if source in self.constants:  # weights that are stored as float
            integers = _integers(self.constants[source], how, _axis(node), np.iinfo(self._kind(node)))
            self._store(node.output[0], integers)
            return []
        if self.is_wide:
            return self._float(node, source, how)
        earlier = self.known.setdefault(source, how)
        if (earlier.scale[0], earlier.zero_point[0]) == (how.scale[0], how.zero_point[0]):
            self.quantized[node.output[0]] = source, how
            return []
        again = f"{source}.requantized {len(self.known)}"
        self.known[again] = how
        self.quantized[node.output[0]] = again, how
        return [onnx.helper.make_node("Clip", [source], [again], name=node.name)]

    def _float(self, node: Any, source: str, how: Quantization) -> list[Any]:
        """In a float network: nothing, or a ReLU where the integers begin at 0: the quantizer leaves it out there."""
        import onnx

        if how.zero_point[0] != np.iinfo(self._kind(node)).min:
            self.quantized[node.output[0]] = source, how
            return []
        positive = f"{node.output[0]}.positive"
        self.quantized[node.output[0]] = positive, how
        return [onnx.helper.make_node("Relu", [source], [positive], name=node.name)]

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

    def _zero(self, node: Any) -> Array | None:
        """Zero point of a node, None for a computed one."""
        import onnx

        if len(node.input) > 2 and node.input[2]:
            return self.constants.get(node.input[2])
        given = next((each.i for each in node.attribute if each.name == "output_dtype"), 0)
        return np.zeros(1, onnx.helper.tensor_dtype_to_np_dtype(given) if given else np.uint8)

    def _kind(self, node: Any) -> Any:
        """Of the integers that a QuantizeLinear makes."""
        zero = self._zero(node)
        return None if zero is None else zero.dtype

    def _how(self, node: Any) -> Quantization:
        """Scale and zero point of a node."""
        scale, zero = self.constants.get(node.input[1]), self._zero(node)
        if scale is None or zero is None or scale.ndim > 1:
            raise QuantizedFormError(f"{node.name!r} has a computed scale or one for each block, expected constants")
        scales, zeros = scale.ravel().astype(np.float64), zero.ravel()
        if not (np.isfinite(scales).all() and (scales > 0).all()):
            raise QuantizedFormError(f"{node.name!r} has a scale that is not above 0")
        if node.op_type == "QuantizeLinear" and zeros.dtype not in (*_KINDS, *_WIDE_KINDS):
            raise QuantizedFormError(f"{node.name!r} makes {zeros.dtype}, expected int8 or uint8")
        zeros = np.broadcast_to(zeros, scales.shape)
        return Quantization(scales, zeros.astype(np.int64), zeros.dtype != np.uint8)

    def _store(self, name: str, values: Array) -> None:
        import onnx

        self.constants[name] = values
        self.graph.initializer.append(onnx.numpy_helper.from_array(values, name))


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


def _integers(real: Array, how: Quantization, axis: int, limits: Any) -> Array:
    zero, scale = _along(how.zero_point, real, axis), _along(how.scale, real, axis)
    integers: Array = np.clip(np.rint(real / scale) + zero, limits.min, limits.max).astype(limits.dtype)
    return integers
