"""Finds the last convolutions of a network, before what its file does to decode them.

Files of detections end differently: some with the convolutions, some with boxes, some with the suppression. All of that
only moves and computes single numbers, so walking back from the outputs ends at the same convolutions.
"""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from edgemeta.toolchain.errors import ImportedFileError
from edgemeta.toolchain.importer.heads.operators import CONVOLUTIONS, PASSED, PLAIN_NAMES
from edgemeta.toolchain.importer.network import Network, Node


class HeadError(Exception):
    """The ends of a network are not those of a known detection; the text says what was found and what to do."""


@dataclass(frozen=True)
class End:
    """A last convolution. tensor: its result. shape: (H, W, C) of it.

    passed: operators between it and the outputs, by ONNX's names. channels_last: whether the tensor is [1, H, W, C].
    """

    tensor: str
    shape: tuple[int, int, int]
    passed: frozenset[str]
    channels_last: bool = False


def ends_of(graph: Network) -> tuple[End, ...]:
    """The last convolutions, in the order in which the outputs read them.

    Raises HeadError if something else is among the ends.
    """
    passed: dict[str, frozenset[str]] = dict.fromkeys(graph.outputs, frozenset())
    makers: dict[str, Node] = {}
    for node in reversed(graph.nodes):
        read = [passed[name] for name in node.outputs if name in passed]
        if not read:
            continue
        makers.update(dict.fromkeys(node.outputs, node))
        if is_end(node, graph):
            continue
        if node.op not in PASSED | CONVOLUTIONS:
            raise HeadError(
                f"the outputs come from {node.place}, expected convolutions, and behind them operations that a "
                "decoding is made of"
            )
        behind = frozenset().union(*read) | {PLAIN_NAMES.get(node.op, node.op)}
        for name in node.inputs:
            if name and name not in graph.constants:
                passed[name] = passed.get(name, frozenset()) | behind
    ends = []
    for name in _in_order(graph, makers):
        shape = graph.shapes.get(name, ())
        if name not in makers or len(shape) != 4:
            what = "the image" if name not in makers else f"{name!r}, whose shape is not known"
            raise HeadError(f"the outputs come from {what}, expected convolutions")
        is_channels_last = makers[name].op.isupper()
        size = (shape[1], shape[2], shape[3]) if is_channels_last else (shape[2], shape[3], shape[1])
        ends.append(End(name, size, passed[name], is_channels_last))
    if not ends:
        raise HeadError("the outputs come from constants, expected convolutions")
    return tuple(ends)


def _in_order(graph: Network, makers: Mapping[str, Node]) -> list[str]:
    """The ends and images that the outputs are made of, in the order in which they are read."""
    found: dict[str, None] = {}
    seen: set[str] = set()
    todo = list(reversed(graph.outputs))
    while todo:
        name = todo.pop()
        if not name or name in graph.constants or name in seen:
            continue
        seen.add(name)
        if name not in makers or is_end(makers[name], graph):
            found[name] = None
        else:
            todo += reversed(makers[name].inputs)
    return list(found)


def is_end(node: Node, graph: Network) -> bool:
    """Whether a node is a convolution of the network, not of its decoding."""
    return node.op in CONVOLUTIONS and not is_expectation(node, graph)


def is_expectation(node: Node, graph: Network) -> bool:
    """Whether a convolution only takes the mean of 0, 1, 2 and so on, as in the decoding of YOLOv8, in integers too."""
    weight = graph.constants.get(node.inputs[1]) if len(node.inputs) > 1 else None
    if weight is None or weight.shape[:1] != (1,) or weight.size < 2:
        return False
    bins = np.arange(weight.size)
    return bool(np.abs(weight.ravel() - bins).max() <= weight.size / 200)  # of integers: half of one of 127 steps


def cut(graph: Network, outputs: Iterable[str]) -> Network:
    """The graph with other outputs, without the nodes that these do not need."""
    wanted = tuple(outputs)
    needed, kept = set(wanted), []
    for node in reversed(graph.nodes):
        if needed.intersection(node.outputs):
            needed.update(node.inputs)
            kept.append(node)
    return replace(graph, outputs=wanted, nodes=tuple(reversed(kept)))


def require_tensors(path: Path, wanted: Iterable[str], known: Sequence[str]) -> None:
    """Raise ImportedFileError for the first name that is none of the tensors, with names that are near."""
    for name in wanted:
        if name not in known:
            near = difflib.get_close_matches(name, known, 3) or known[-3:]
            raise ImportedFileError(f"{path}: has no tensor {name!r}, it has for example {', '.join(map(repr, near))}")
