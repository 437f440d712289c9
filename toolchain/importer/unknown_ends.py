"""Ends of a network that nothing in its file explains: what is asked of the user, in one sentence."""

from math import prod

from edgemeta.model.tasks import MAX_NUMBERS
from edgemeta.toolchain.importer.answers import FORMS, SIGMOID, SOFTMAX
from edgemeta.toolchain.importer.heads.ends import cut
from edgemeta.toolchain.importer.heads.tail import POST_PROCESS
from edgemeta.toolchain.importer.network import Network, Node, printable
from edgemeta.toolchain.importer.tflite_file import RECORDS

_MOVES = (*FORMS, "Transpose", "TRANSPOSE")
_SELECTIONS = (POST_PROCESS, "NonMaxSuppression", "NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5", "TopK", "TOPK_V2")
"""Operations of which the vectors at the end of a detection come."""
_COARSEST = 8
"""Pixels by which the rows of a map of one score each are apart at most, that is taken for labels of pixels."""


def is_vector(graph: Network) -> bool:
    """Whether the only output is one vector."""
    shape = graph.shapes.get(graph.outputs[0], ())
    return len(graph.outputs) == 1 and len(shape) >= 2 and max(shape) == prod(shape)


def scored_map(graph: Network) -> tuple[Network, str] | None:
    """The network that ends with the scores of each place, and a note; None where its only output is no such map.

    It is one where a softmax over channels, or a sigmoid of one channel, makes it, or if the file names a label for
    each channel.
    """
    whole = graph.shapes.get(graph.outputs[0], ())
    labels = graph.stored.labels
    if len(graph.outputs) == 1 and len(whole) == 4 and len(labels) > 1:
        rows, channels = (whole[1], whole[3]) if graph.input_order == "hwc" else (whole[2], whole[1])
        if channels == len(labels) and rows * _COARSEST >= graph.input_shape[2]:
            return graph, f"its map has a channel for each of the {channels} labels in the file: labels of pixels"
    makers = {name: node for node in graph.nodes for name in node.outputs}
    node = makers.get(graph.outputs[0])
    while node is not None and node.op in _MOVES and node.inputs[0] in makers:
        node = makers[node.inputs[0]]
    shape = graph.shapes.get(node.inputs[0], ()) if node is not None else ()
    if len(graph.outputs) != 1 or node is None or node.op not in (*SOFTMAX, *SIGMOID) or len(shape) != 4:
        return None
    name, before = node.inputs[0], makers.get(node.inputs[0])
    if node.op in SIGMOID:
        sides = [side for side in shape if side != 1]
    elif node.op.isupper() or node.attributes.get("axis", -1) in (1, -3):
        sides = [*shape[1:3]] if node.op.isupper() else [*shape[2:]]
    elif before is not None and before.op == "Transpose" and before.attributes.get("perm") == (0, 2, 3, 1):
        name, sides = before.inputs[0], [*shape[1:3]]
    else:
        return None
    if len(sides) != 2 or sides[0] * _COARSEST < graph.input_shape[2]:
        return None
    note = f"{node.place} makes scores of each place: taken for labels of pixels, and left out"
    return cut(graph, [name]), note


def question(graph: Network, reason: str) -> str:
    """What is not known of the outputs, and the options that say it. reason: why they are no detection."""
    shapes = {name: graph.shapes.get(name, ()) for name in graph.outputs}
    listed = ", ".join([f"{printable(name)!r} ({_size(shape)})" for name, shape in shapes.items()][:5])
    unknown = f"it gives {listed}, of which the file says no meaning"
    if custom := next((node for node in graph.nodes if node.op.startswith("CUSTOM ") and _makes(node, graph)), None):
        before = ", ".join(repr(printable(name)) for name in custom.inputs if name in graph.shapes)
        return (
            f"its outputs are made by {custom.place}, an operator that only its own runtime has: --outputs names "
            f"tensors before it ({before}), with --task raw for at most {MAX_NUMBERS} numbers, or with --decoding "
            "where they are those of a detection"
        )
    is_selected = any(node.op in _SELECTIONS for node in graph.nodes)
    vectors = {name: max(shape) for name, shape in shapes.items() if max(shape, default=0) == prod(shape) > 1}
    rows = {side for shape in shapes.values() if len(shape) == 3 and max(shape) < prod(shape) for side in shape}
    if vectors and not is_selected and not rows & set(vectors.values()):  # a vector of all rows is scores of boxes
        largest = max(vectors, key=lambda name: vectors[name])
        return (
            f"{unknown}: --outputs {largest} --task keypoints (or classification, embedding) takes one of them"
            f"{as_numbers(graph)}"
        )
    sides = next(iter(shapes.values()))
    if len(shapes) == 1 and len(sides) == 4 and min(sides[1:3] if graph.input_order == "hwc" else sides[2:]) > 1:
        return (
            f"{unknown} ({reason}): --task segmentation takes it for scores of labels, --outputs and --decoding name "
            f"the convolutions of a detection{as_numbers(graph)}"
        )
    return (
        f"no detection was recognized: {reason}: --outputs with --decoding name its last convolutions, --outputs with "
        f"--task another result than {listed}{as_numbers(graph)}"
    )


def as_numbers(graph: Network) -> str:
    """The last resort, or that the outputs have too many numbers for it."""
    count = sum(prod(graph.shapes.get(name, ())) for name in graph.outputs)
    if count > MAX_NUMBERS:
        return f"; --task raw takes at most {MAX_NUMBERS} numbers, these are {count}"
    return ", and --task raw takes all as numbers"


def _makes(node: Node, graph: Network) -> bool:
    """Whether the outputs are made by one node that is no selection of boxes, and none that is known here."""
    return set(graph.outputs) <= set(node.outputs) and node.op not in (POST_PROCESS, *RECORDS)


def _size(shape: tuple[int, ...]) -> str:
    sides = [side for side in shape if side != 1]
    return "x".join(map(str, sides)) or ("1" if shape else "open")
