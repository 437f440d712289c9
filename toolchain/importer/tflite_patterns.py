"""What converters write into a TFLite file as several operations: arithmetic with shapes, dilated convolutions.

A dilated convolution is SPACE_TO_BATCH_ND, a convolution and BATCH_TO_SPACE_ND. The first takes every b-th row and
column as an image of its own, with zeros around the map, the last puts them together again and cuts off edges. A
convolution between them sees neighbours that are b apart: that is one with dilation b.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from edgemeta.toolchain.importer.heads.tail import computed
from edgemeta.toolchain.importer.network import Array, Node

_CONVOLUTIONS = ("CONV_2D", "DEPTHWISE_CONV_2D")
_POINTWISE = ("RELU", "RELU6", "HARD_SWISH", "LEAKY_RELU", "LOGISTIC", "TANH", "ADD", "MUL", "SUB", "QUANTIZE")
_VALID = 1
_MOST_SIDES = 64
"""Numbers of a tensor that is taken for one of shapes."""


def with_shapes_known(
    nodes: Sequence[Node], constants: dict[str, Array], shapes: Mapping[str, tuple[int, ...]]
) -> tuple[Node, ...]:
    """The nodes without those that compute with shapes, as for a batch left open; their results become constants."""
    kept = []
    for node in nodes:
        if node.op == "SHAPE" and node.inputs[0] in shapes:
            constants[node.outputs[0]] = np.array(shapes[node.inputs[0]], np.int32)
            continue
        given = [constants[name] for name in node.inputs if name in constants]
        is_whole = len(given) == len(node.inputs) > 0 and all(
            each.dtype in (np.int32, np.int64) and each.size <= _MOST_SIDES for each in given
        )
        results = computed(node, given) if is_whole else None
        if results is None or len(results) != len(node.outputs) or any(each.size > _MOST_SIDES for each in results):
            kept.append(node)
        else:
            constants.update(zip(node.outputs, (each.astype(np.int32) for each in results), strict=True))
    return tuple(kept)


def with_dilations(
    nodes: Sequence[Node], constants: Mapping[str, Array], shapes: dict[str, tuple[int, ...]]
) -> tuple[Node, ...]:
    """The nodes with one convolution for each such three, and the shapes of the tensors between them as it makes them.

    Operations between them may be those of single elements. Everything else stays, and is refused by name later.
    """
    made = {name: node for node in nodes for name in node.outputs}
    readers = Counter(name for node in nodes for name in node.inputs)
    changed: dict[str, Node] = {}
    joined: set[str] = set()
    for node in nodes:
        chain = _chain(node, made, readers, constants) if node.op == "BATCH_TO_SPACE_ND" else None
        dilated = _dilated(chain[0], chain[1], node, constants) if chain else None
        if chain is None or dilated is None:
            continue
        whole, results = shapes[node.outputs[0]], [each.outputs[0] for each in chain[1:]]
        shapes.update({name: (*whole[:3], shapes[name][3]) for name in results})
        changed[results[0]] = dilated
        changed[results[-1]] = replace(changed.get(results[-1], chain[-1]), outputs=node.outputs)
        joined.add(node.outputs[0])
    kept = [changed.get(each.outputs[0], each) for each in nodes if each.outputs[0] not in joined]
    used = {name for each in kept for name in each.inputs}
    return tuple(each for each in kept if each.op != "SPACE_TO_BATCH_ND" or used & set(each.outputs))


def _chain(
    last: Node, made: Mapping[str, Node], readers: Mapping[str, int], constants: Mapping[str, Array]
) -> list[Node] | None:
    """SPACE_TO_BATCH_ND, the convolution and what is behind it, before a BATCH_TO_SPACE_ND; None if there is more."""
    behind: list[Node] = []
    name = last.inputs[0]
    while (node := made.get(name)) is not None and readers[name] == 1:
        if node.op in _CONVOLUTIONS:
            first = made.get(node.inputs[0])
            return [first, node, *reversed(behind)] if first and first.op == "SPACE_TO_BATCH_ND" else None
        if node.op not in _POINTWISE or any(each not in constants for each in node.inputs[1:]):
            return None
        behind.append(node)
        name = node.inputs[0]
    return None


def _dilated(first: Node, conv: Node, last: Node, constants: Mapping[str, Array]) -> Node | None:
    """The convolution with the dilation of the block, and with the padding that is not cut off again."""
    numbers = [constants.get(name) for node in (first, last) for name in node.inputs[1:3]]
    if len(numbers) != 4 or any(each is None for each in numbers):
        return None
    block, around, block_too, cut = (each.tolist() for each in numbers if each is not None)
    is_plain = all(conv.attributes.get(f"stride_{side}", 1) == 1 for side in "wh")
    is_plain = is_plain and all(conv.attributes.get(f"dilation_{side}_factor", 1) == 1 for side in "wh")
    if block != block_too or len(block) != 2 or not is_plain or conv.attributes.get("padding") != _VALID:
        return None
    (top, bottom), (left, right) = (
        [a - c for a, c in zip(*pair, strict=True)] for pair in zip(around, cut, strict=True)
    )
    if min(top, bottom, left, right) < 0:
        return None
    attributes = {"dilation_h_factor": block[0], "dilation_w_factor": block[1], "pads": (top, left, bottom, right)}
    return replace(conv, inputs=(first.inputs[0], *conv.inputs[1:]), attributes={**conv.attributes, **attributes})
