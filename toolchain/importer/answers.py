"""The end of a classification, where its file makes probabilities or the number of the best label of its logits.

Scores are computed from the logits here, and the greatest logit is that of the best label; so the network ends there.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod

from edgemeta.toolchain.importer.heads.ends import cut
from edgemeta.toolchain.importer.network import Network, Node

FLOATS = (0, 1, 10, 11, 16)
"""ONNX's types of floating point numbers, and of a Cast that does not say its own."""
SOFTMAX = ("Softmax", "LogSoftmax", "SOFTMAX", "LOGSOFTMAX")
_BEST = ("ArgMax", "ARG_MAX")
SIGMOID = ("Sigmoid", "LOGISTIC")
FORMS = ("Identity", "Cast", "QUANTIZE", "DEQUANTIZE", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "RESHAPE")
"""Operations behind the answer that change its type or shape only."""


@dataclass(frozen=True)
class _Way:
    """From an output back to the logits. answers: the nodes of which one makes the answer."""

    tensor: str
    answers: tuple[Node, ...] = ()


def without_answers(network: Network) -> tuple[Network, bool]:
    """The network that ends with its logits, and whether its file says that these are of labels that exclude another.

    Only of a network whose outputs are all made of one vector; every other one is given back as it is.
    """
    makers = {name: node for node in network.nodes for name in node.outputs}
    ways = [_way(network, makers, name) for name in network.outputs]
    ends = dict.fromkeys(way.tensor for way in ways)
    answers = dict.fromkeys(node for way in ways for node in way.answers)
    if not answers or len(ends) != 1:
        return network, False
    is_choice = any(node.op in (*SOFTMAX, *_BEST) for node in answers)
    left_out = [node.place for node in answers if node.op not in SIGMOID]
    notes = [f"{place} is left out: scores are computed from the logits before it" for place in left_out]
    return replace(cut(network, ends), notes=(*network.notes, *notes)), is_choice


def _way(network: Network, makers: Mapping[str, Node], output: str) -> _Way:
    """Back over changes of type and shape to a softmax, a sigmoid or the number of the greatest, and before it."""
    name, way, is_whole_number = output, _Way(output), False
    while (node := makers.get(name)) is not None:
        if node.op in SIGMOID and not way.answers and _is_vector(network, node.outputs[0]):
            return _Way(name, (node,))
        is_answer = node.op in _BEST if not way.answers else False
        is_answer = is_answer or (node.op in SOFTMAX and not any(each.op in SOFTMAX for each in way.answers))
        if not (is_answer or node.op in FORMS) or not _is_vector(network, node.inputs[0]):
            return way
        if node.op == "Cast" and node.attributes.get("to", 0) not in FLOATS:
            is_whole_number = True
        if node.op in SOFTMAX and is_whole_number and not way.answers:
            return way  # a probability cut off to 0 or 1 is no answer
        name = node.inputs[0]
        if is_answer:
            if not _is_along_labels(network, node):
                return way
            way = _Way(name, (*way.answers, node))
    return way


def _is_vector(network: Network, tensor: str) -> bool:
    """Or one number."""
    shape = network.shapes.get(tensor)
    return shape is not None and max(shape, default=1) == prod(shape)


def _is_along_labels(network: Network, node: Node) -> bool:
    """Whether a node goes over the labels, and not over an axis of one element."""
    shape = network.shapes[node.inputs[0]]
    if prod(shape) == 1:
        return False
    axis = node.attributes.get("axis")
    if axis is None and len(node.inputs) > 1 and node.inputs[1] in network.constants:
        axis = int(network.constants[node.inputs[1]].ravel()[0])
    if axis is None:
        axis = 0 if node.op == "ArgMax" else -1
    if not -len(shape) <= axis < len(shape):
        return False
    axis %= len(shape)
    return max(shape) in (shape[axis], prod(shape[axis:]) if node.op in SOFTMAX else 0)
