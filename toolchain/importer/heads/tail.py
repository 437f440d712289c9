"""Computes what a file does with the numbers of its last convolutions: the operators that decodings are made of.

So a decoding is read from the file itself: numbers are put in, boxes come out (`probe`). Everything is float64; how the
file rounds to integers is left out. What cannot be computed (an operator that selects, one that is unknown, a tensor
that is too large) is left out, and so is what follows from it.
"""

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgemeta.toolchain.importer.network import Array, Network, Node

MAX_ELEMENTS, MAX_TOGETHER = 1 << 24, 1 << 26
"""Of one tensor, and of all."""
POST_PROCESS = "CUSTOM TFLite_Detection_PostProcess"
"""The end of TensorFlow's detections: boxes, scores and anchors in, the best objects out."""
_Inputs = Sequence[Any]


def _sigmoid(x: Array) -> Array:
    result: Array = 1 / (1 + np.exp(-x))
    return result


def _softmax(node: Node, x: Array) -> Array:
    powers = np.exp(x - x.max(axis := node.attributes.get("axis", -1), keepdims=True))
    result: Array = powers / powers.sum(axis, keepdims=True)
    return result


def _axis(node: Node) -> int:
    return int(node.attributes.get("axis", 0))


def _numbers(values: Any) -> list[int]:
    return [int(each) for each in np.asarray(values).ravel()]


def _second(node: Node, given: _Inputs, name: str) -> list[int]:
    """A list of numbers: the second input, or in old files an attribute."""
    return _numbers(given[1] if len(given) > 1 and given[1] is not None else node.attributes[name])


def _reshape(node: Node, given: _Inputs) -> Array:
    sides = _second(node, given, "shape")
    source = given[0]
    kept = [
        source.shape[i] if side == 0 and not node.attributes.get("allowzero") else side for i, side in enumerate(sides)
    ]
    result: Array = source.reshape(kept)
    return result


def _squeeze(node: Node, given: _Inputs) -> Array:
    named = given[1] if len(given) > 1 else node.attributes.get("axes", node.attributes.get("squeeze_dims"))
    axes = _numbers(named) if named is not None else []
    result: Array = np.squeeze(given[0], tuple(axes) or None)
    return result


def _slice(node: Node, given: _Inputs) -> Array:
    """ONNX's Slice: starts, ends, axes, steps as inputs, or in old files as attributes."""
    parts = [given[i] if len(given) > i else None for i in range(1, 5)]
    old = [node.attributes.get(name) for name in ("starts", "ends", "axes", "steps")]
    starts, ends, axes, steps = (
        None if a is None and b is None else _numbers(b if a is None else a) for a, b in zip(parts, old, strict=True)
    )
    assert starts is not None
    assert ends is not None
    index = [slice(None)] * given[0].ndim
    for axis, first, last, step in zip(
        axes or range(len(starts)), starts, ends, steps or [1] * len(starts), strict=True
    ):
        index[axis] = slice(first, None if last < -(1 << 30) else last, step)
    result: Array = given[0][tuple(index)]
    return result


def _tflite_slice(_: Node, given: _Inputs) -> Array:
    begin, size = _numbers(given[1]), _numbers(given[2])
    result: Array = given[0][tuple(slice(a, None if n < 0 else a + n) for a, n in zip(begin, size, strict=True))]
    return result


def _strided_slice(node: Node, given: _Inputs) -> Array:
    begin, end, step = (_numbers(each) for each in given[1:4])
    flag = {
        name: int(node.attributes.get(f"{name}_mask", 0))
        for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")
    }
    if flag["ellipsis"] or flag["new_axis"]:
        raise ValueError("a mask that is not known")
    index: list[Any] = []
    for i, (first, last, by) in enumerate(zip(begin, end, step, strict=True)):
        bit = 1 << i
        ranged = slice(None if flag["begin"] & bit else first, None if flag["end"] & bit else last, by)
        index.append(first if flag["shrink_axis"] & bit else ranged)
    result: Array = given[0][tuple(index)]
    return result


def _split(node: Node, given: _Inputs) -> list[Array]:
    """Split, SPLIT and SPLIT_V: parts of given sizes, or equal ones."""
    if node.op == "SPLIT":
        source, axis, sizes = given[1], int(np.asarray(given[0]).ravel()[0]), None
    elif node.op == "SPLIT_V":
        source, axis, sizes = given[0], int(np.asarray(given[2]).ravel()[0]), _numbers(given[1])
    else:
        source, axis = given[0], _axis(node)
        named = given[1] if len(given) > 1 else node.attributes.get("split")
        sizes = None if named is None else _numbers(named)
    count = len(node.outputs)
    if sizes is None:
        side = -(-source.shape[axis] // count)
        sizes = [side] * (count - 1)
    else:
        sizes = sizes[:-1]
    return list(np.split(source, np.cumsum(sizes), axis))


def _scattered(_: Node, given: _Inputs) -> Array:
    """ScatterND: the last axis of the indices says where an update goes."""
    result = np.array(given[0])
    result[tuple(np.moveaxis(np.asarray(given[1], np.int64), -1, 0))] = given[2]
    return result


def _conv(node: Node, given: _Inputs) -> Array:
    """A convolution of one pixel, as for the mean of a distribution."""
    channels_last = node.op == "CONV_2D"
    source, weight = given[0], np.asarray(given[1], np.float64)
    if prod(weight.shape[1:3] if channels_last else weight.shape[2:]) != 1 or node.attributes.get("group", 1) != 1:
        raise ValueError("more than one pixel")
    matrix = weight.reshape(len(weight), -1)
    made = np.einsum("nhwc,oc->nhwo" if channels_last else "nchw,oc->nohw", source, matrix)
    if len(given) > 2 and given[2] is not None:
        made = made + np.asarray(given[2]).reshape((1, 1, 1, -1) if channels_last else (1, -1, 1, 1))
    result: Array = made
    return result


def _post_process(node: Node, given: _Inputs) -> Array:
    """The boxes [1, n, 4] that TFLite_Detection_PostProcess decodes before it selects: y0, x0, y1, x1.

    A file that states no scales has TensorFlow's.
    """
    boxes, anchors = np.asarray(given[0]).reshape(-1, 4), np.asarray(given[2], np.float64)
    usual = {"y": 10.0, "x": 10.0, "h": 5.0, "w": 5.0}
    scales = [float(node.attributes.get(f"{name}_scale", scale)) for name, scale in usual.items()]
    centre = boxes[:, :2] / scales[:2] * anchors[:, 2:] + anchors[:, :2]
    half = np.exp(boxes[:, 2:] / scales[2:]) * anchors[:, 2:] / 2
    return np.concatenate([centre - half, centre + half], 1)[np.newaxis]


def _reduced(node: Node, given: _Inputs, function: Callable[..., Any]) -> Array:
    named = given[1] if len(given) > 1 else node.attributes.get("axes")
    axes = None if named is None else tuple(_numbers(named))
    keeps = node.attributes.get("keepdims", node.attributes.get("keep_dims", node.op[0:6] == "Reduce"))
    result: Array = function(given[0], axis=axes, keepdims=bool(keeps))
    return result


def _clip(node: Node, given: _Inputs) -> Array:
    low, high = (given[i] if len(given) > i else node.attributes.get(name) for i, name in ((1, "min"), (2, "max")))
    result: Array = np.clip(given[0], low, high) if low is not None or high is not None else given[0]
    return result


def _cast(node: Node, given: _Inputs) -> Array:
    whole = node.attributes.get("to") in (2, 3, 4, 5, 6, 7, 12, 13)
    result: Array = np.trunc(given[0]).astype(np.int64) if whole else np.asarray(given[0], np.float64)
    return result


_TWO: Mapping[str, Callable[[Any, Any], Any]] = {
    "ADD": np.add,
    "DIV": np.divide,
    "FLOOR_DIV": np.floor_divide,
    "FLOOR_MOD": np.mod,
    "MAXIMUM": np.maximum,
    "MAX": np.maximum,
    "MIN": np.minimum,
    "MINIMUM": np.minimum,
    "MUL": np.multiply,
    "POW": np.power,
    "SUB": np.subtract,
}
_ONE: Mapping[str, Callable[[Any], Any]] = {
    "ABS": np.abs,
    "DEQUANTIZE": np.asarray,
    "EXP": np.exp,
    "FLOOR": np.floor,
    "IDENTITY": np.asarray,
    "LOGISTIC": _sigmoid,
    "NEG": np.negative,
    "QUANTIZE": np.asarray,
    "RELU": lambda x: np.maximum(x, 0),
    "SIGMOID": _sigmoid,
    "SQRT": np.sqrt,
    "SQUARE": np.square,
    "TANH": np.tanh,
}
"""By upper-case names: those of ONNX and TFLite mean the same."""
_OTHER: Mapping[str, Callable[[Node, _Inputs], Any]] = {
    "CONV_2D": _conv,
    "CAST": lambda node, given: _cast(node, given) if "to" in node.attributes else np.asarray(given[0]),
    "CLIP": _clip,
    "CONCAT": lambda node, given: np.concatenate(given, _axis(node)),
    "CONCATENATION": lambda node, given: np.concatenate(given, _axis(node)),
    "CONV": _conv,
    "EXPAND": lambda _, given: np.broadcast_to(
        given[0], np.broadcast_shapes(given[0].shape, tuple(_numbers(given[1])))
    ),
    "EXPAND_DIMS": lambda _, given: np.expand_dims(given[0], int(np.asarray(given[1]).ravel()[0])),
    "FLATTEN": lambda node, given: given[0].reshape(prod(given[0].shape[: node.attributes.get("axis", 1)]), -1),
    "GATHER": lambda node, given: np.take(given[0], np.asarray(given[1], np.int64), _axis(node)),
    "MATMUL": lambda _, given: np.matmul(given[0], given[1]),
    "PACK": lambda node, given: np.stack(given, _axis(node)),
    "REDUCEMAX": lambda node, given: _reduced(node, given, np.max),
    "REDUCESUM": lambda node, given: _reduced(node, given, np.sum),
    "REDUCE_MAX": lambda node, given: _reduced(node, given, np.max),
    "RESHAPE": _reshape,
    "SCATTERND": _scattered,
    "SLICE": lambda node, given: (_tflite_slice if node.op == "SLICE" else _slice)(node, given),
    "SOFTMAX": lambda node, given: _softmax(node, given[0]),
    "SPLIT": _split,
    "SPLIT_V": _split,
    "SQUEEZE": _squeeze,
    "STRIDED_SLICE": _strided_slice,
    "SUM": lambda node, given: _reduced(node, given, np.sum),
    "TILE": lambda _, given: np.tile(given[0], _numbers(given[1])),
    "TRANSPOSE": lambda node, given: given[0].transpose(
        _numbers(given[1]) if len(given) > 1 else node.attributes.get("perm")
    ),
    "UNPACK": lambda node, given: [
        np.squeeze(part, _axis(node)) for part in np.split(given[0], len(node.outputs), _axis(node))
    ],
    "UNSQUEEZE": lambda node, given: np.expand_dims(given[0], tuple(_second(node, given, "axes"))),
    "WHERE": lambda _, given: np.where(np.asarray(given[0], np.bool_), given[1], given[2]),
    POST_PROCESS.upper(): _post_process,
}


def computed(node: Node, given: _Inputs) -> list[Array] | None:
    """The results of a node, None if they cannot be computed. given: its inputs [...], None for one left out."""
    op = node.op.upper()
    sides = [np.shape(each) for each in given if each is not None]
    try:
        if op == "TILE" and prod(sides[0]) * prod(max(1, each) for each in _numbers(given[1])) > MAX_ELEMENTS:
            return None
        if op in _TWO and prod(np.broadcast_shapes(*sides)) > MAX_ELEMENTS:
            return None
        if op == "MATMUL" and prod(sides[0][:-1]) * sides[1][-1] > MAX_ELEMENTS:
            return None
        if node.attributes.get("act"):
            return None
        with np.errstate(all="ignore"):
            if op in _TWO:
                made: Any = given[0]
                for other in given[1:]:
                    made = _TWO[op](made, other)
            elif op in _ONE:
                made = _ONE[op](given[0])
            elif op in _OTHER:
                made = _OTHER[op](node, given)
            else:
                return None
    except (ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, TypeError, ValueError):
        return None
    results = [np.asarray(each) for each in (made if isinstance(made, list) else [made])]
    return results if sum(each.size for each in results) <= MAX_ELEMENTS else None


class Tail:
    """What follows from the last convolutions of a network. ends: their tensors. nodes: those behind them, in order."""

    def __init__(self, graph: Network, ends: Sequence[str]) -> None:
        self.graph = graph
        self._fixed: dict[str, NDArray[Any]] = {}
        self.nodes: list[Node] = []
        self._room = MAX_TOGETHER
        behind = set(ends)
        for node in graph.nodes:
            if any(name in behind for name in node.outputs):
                continue  # an end itself
            shape = graph.shapes.get(node.inputs[0]) if node.inputs else None
            if node.op.upper() == "SHAPE" and shape is not None and node.inputs[0] not in graph.constants:
                self._fixed[node.outputs[0]] = np.array(shape, np.int64)
            elif any(name in behind for name in node.inputs):
                behind.update(node.outputs)
                self._read(node)
                self.nodes.append(node)
            elif all(not name or name in self._fixed or name in graph.constants for name in node.inputs):
                self._read(node)
                self._keep(node, self._fixed)

    def _read(self, node: Node) -> None:
        """Note the constants that a node has among its inputs."""
        for name in node.inputs:
            value = self.graph.constants.get(name)
            if value is not None and name not in self._fixed:
                with np.errstate(invalid="ignore"):  # numbers of damaged files
                    self._fixed[name] = value.astype(np.float64) if value.dtype.kind == "f" else value

    def run(self, values: Mapping[str, Array], before: Mapping[str, Array] | None = None) -> dict[str, Array]:
        """All tensors [...] that follow from values [...] of ends, in order, those included.

        before: tensors of another run; what does not follow from the values is as there.
        """
        self._room = MAX_TOGETHER
        known: dict[str, Array] = {**self._fixed, **(before or {}), **values}
        changed = set(values)
        made: dict[str, Array] = dict(values)
        for node in self.nodes:
            if before is not None and not changed.intersection(node.inputs):
                continue
            for name in node.outputs:
                known.pop(name, None)
            self._keep(node, known)
            for name in node.outputs:
                changed.add(name)
                if name in known:
                    made[name] = known[name]
        return made

    def _keep(self, node: Node, known: dict[str, Array]) -> None:
        if self._room > 0 and all(not name or name in known for name in node.inputs):
            given: list[Any] = [known[name] if name else None for name in node.inputs]
            if node.op == "RESHAPE" and len(given) == 1:  # its shape is among the options, or that of its result
                given.append(self.graph.shapes.get(node.outputs[0], ()))
            results = computed(node, given) or []
            self._room -= sum(each.size for each in results if each.base is None)
            known.update(zip(node.outputs, results, strict=False))
