"""Shapes of an ONNX network, and the numbers that it computes from them: windows, their paddings and masks."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

_ROUNDS = 8
"""Most times that shapes are inferred anew: each may rest on numbers computed from the shapes before it."""
_MOST_NUMBERS = 1 << 16
"""Of a constant that is computed from shapes."""
_FOLDED = (
    *("Add", "Cast", "Concat", "Div", "Equal", "Expand", "Gather", "Mod", "Mul", "Neg", "Not", "Range", "Reshape"),
    *("ScatterND", "Slice", "Squeeze", "Sub", "Transpose", "Unsqueeze", "Where"),
)


def with_known_shapes(proto: Any) -> Any:
    """The network with the shapes of all tensors, and constants for what is computed from these alone.

    proto: an ONNX ModelProto, whose nodes are changed. Raises what onnx raises for a network that is not consistent.
    """
    import onnx

    for _ in range(_ROUNDS):
        proto = onnx.shape_inference.infer_shapes(proto, strict_mode=True, data_prop=True)
        if not _fold(proto.graph):
            break
    return proto


def _fold(graph: Any) -> bool:
    """Replace nodes by constants; whether there were any."""
    import onnx
    from onnx.reference import ReferenceEvaluator

    shapes = {}
    for each in (*graph.input, *graph.value_info, *graph.output):
        dims = [dim.dim_value for dim in each.type.tensor_type.shape.dim]
        if each.type.tensor_type.HasField("shape") and min(dims, default=1) > 0:
            shapes[each.name] = dims
    known = {
        each.name: onnx.numpy_helper.to_array(each) for each in graph.initializer if np.prod(each.dims) <= _MOST_NUMBERS
    }
    found: dict[str, NDArray[Any]] = {}
    for node in graph.node:
        if node.op_type == "Shape" and node.input[0] in shapes and not node.attribute:
            found[node.output[0]] = np.array(shapes[node.input[0]], np.int64)
        elif node.op_type in _FOLDED and all(name in known or name in found for name in node.input if name):
            given = {name: found.get(name, known.get(name)) for name in node.input if name}
            results: Any = ReferenceEvaluator(node).run(None, given)
            if np.size(results[0]) <= _MOST_NUMBERS:
                found[node.output[0]] = np.asarray(results[0])
    if not found:
        return False
    kept = [node for node in graph.node if node.output[0] not in found]
    del graph.node[:]
    graph.node.extend(kept)
    graph.initializer.extend(onnx.numpy_helper.from_array(value, name) for name, value in found.items())
    return True
