"""The task of an imported network: what the user says, or what the end of the network shows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from edgemeta.model.layers import AveragePool, FloatLayer, Function, GlobalAverage, MaxPool, Product
from edgemeta.model.tasks import Classification, Embedding, Keypoints, MultiLabel, Raw, Segmentation, Task
from edgemeta.toolchain.errors import ImportedFileError
from edgemeta.toolchain.importer.answers import SIGMOID, SOFTMAX
from edgemeta.toolchain.importer.builder import Imported, maps_of
from edgemeta.toolchain.importer.heads.coco import COCO
from edgemeta.toolchain.importer.heads.detection import detection
from edgemeta.toolchain.importer.heads.ends import HeadError, cut, ends_of
from edgemeta.toolchain.importer.heads.levels import Heads, heads_of
from edgemeta.toolchain.importer.heads.task_settings import TaskSettings
from edgemeta.toolchain.importer.network import Network
from edgemeta.toolchain.importer.unknown_ends import is_vector, question, scored_map
from edgemeta.toolchain.importer.values import Flat, Map, Pixels

LEAST_LOGITS = 3
"""From so many numbers on a vector without a softmax is taken for the logits of labels, with a note."""
_OF_IMAGENET = (1000, 1001)
_POINTS = {42: 21, 63: 21, 136: 68, 196: 98, 212: 106, 1404: 468, 1434: 478}
"""Numbers that landmarks of hands and faces have, and of how many points."""
_EMBEDDINGS = (128, 256, 512, 1024, 1280, 2048)
"""Numbers that embeddings have."""


@dataclass(frozen=True, eq=False)
class Meaning:
    """The layers of a network, which of them are its outputs, and what these mean. notes: what was left out.

    parts: layers that are some output channels of a layer of the file, by name.
    """

    layers: tuple[FloatLayer, ...]
    outputs: tuple[str, ...]
    task: Task
    notes: tuple[str, ...]
    parts: Mapping[str, tuple[str, tuple[int, ...]]] = field(default_factory=dict)


def recognize(graph: Network, settings: TaskSettings, path: Path) -> tuple[Network, Heads | None]:
    """The heads of a detection, and the graph cut before its decoding; without, the graph as it is.

    Raises ImportedFileError for a network of several outputs, or of a map, that is no detection.
    """
    if settings.task in (None, "segmentation") and (logits := _compared(graph)) is not None:
        return cut(graph, [logits]), None
    if settings.task not in (None, "detection") or (
        settings.task is None and not settings.decoding and is_vector(graph)
    ):
        return graph, None
    try:
        heads = heads_of(graph, ends_of(graph), settings)
    except HeadError as error:
        found = None if settings.task or settings.decoding else scored_map(graph)
        if found is None:
            raise ImportedFileError(f"{path}: {question(graph, str(error))}") from None
        network, note = found
        return replace(network, notes=(*network.notes, note)), None
    return cut(graph, heads.tensors), heads


def _compared(graph: Network) -> str | None:
    """The map whose channels an ArgMax at the end compares, over casts and views of its result; None otherwise."""
    makers = {name: node for node in graph.nodes for name in node.outputs}
    node = makers.get(graph.outputs[0])
    while node is not None and node.op in _VIEWS:
        node = makers.get(node.inputs[0])
    if len(graph.outputs) != 1 or node is None or node.op not in ("ArgMax", "ARG_MAX"):
        return None
    before, after = graph.shapes.get(node.inputs[0], ()), graph.shapes.get(node.outputs[0], ())
    channels = -1 if node.op == "ARG_MAX" or graph.input_order == "hwc" else 1
    left = [side for place, side in enumerate(before) if place != channels % 4]
    is_map = len(before) == 4 and [side for side in after if side != 1] == [side for side in left if side != 1]
    if not is_map or before[channels] == 1 or max(left) == 1:
        return None
    name = node.inputs[0]
    while (maker := makers.get(name)) is not None and maker.op in (*SOFTMAX, *SIGMOID, "QUANTIZE", "DEQUANTIZE"):
        name = maker.inputs[0]  # the greatest stays the greatest
    return name


_VIEWS = ("Cast", "CAST", "Identity", "Squeeze", "SQUEEZE", "Unsqueeze", "EXPAND_DIMS", "Reshape", "RESHAPE")


def meaning(
    imported: Imported,
    heads: Heads | None,
    settings: TaskSettings,
    stored: tuple[str, ...],
    is_choice: bool,
    path: Path,
) -> Meaning:
    """What a network's outputs mean. Raises ImportedFileError.

    stored: the names of labels that the file has. is_choice: whether the file computes which label is the best.
    """
    if heads is not None:
        return _detection(imported, heads, settings, stored, path)
    if settings.task == "raw":
        return _raw(imported)
    layers, outputs, notes = imported.layers, imported.tensors, list(imported.notes)
    if len(outputs) != 1:
        wanted = {"keypoints": "keypoints"}.get(settings.task or "", f"a {settings.task or 'vector'}")
        named = ", ".join(map(repr, list(imported.outputs)[:5]))
        raise ImportedFileError(
            f"{path}: has {len(outputs)} outputs, expected 1 for {wanted}: name it with --outputs, of {named}"
        )
    task = settings.task
    last = next((layer for layer in layers if layer.name == outputs[0]), None)
    if isinstance(last, Function) and last.function == "sigmoid" and task not in ("embedding", "keypoints"):
        layers, outputs = tuple(layer for layer in layers if layer is not last), (last.input,)
        notes.append("the sigmoid at the end is left out: scores are computed from the logits before it")
        task = task or "multi-label"
    (value,) = imported.outputs.values()
    (shape,) = (each.shape for each in maps_of(value))
    count = shape[2]
    if isinstance(value, Flat) and max(shape[:2]) > 1 and task != "segmentation":
        raise ImportedFileError(
            f"{path}: its vector is a map of {shape[0]}x{shape[1]} places with {count} numbers each, which only --task "
            "raw and --task segmentation take"
        )
    is_named = bool(is_choice or settings.task or settings.labels or stored)
    if not is_named and max(shape[:2]) == 1 and (other := _likelier(count)):
        raise ImportedFileError(
            f"{path}: its result is {count} numbers, {other} takes them as such, --task raw as numbers; --labels FILE, "
            "or --task classification or multi-label, as scores of labels"
        )
    if task == "keypoints":
        return Meaning(layers, outputs, _keypoints(path, settings, count), tuple(notes))
    if task == "embedding":
        return Meaning(layers, outputs, Embedding(), tuple(notes))
    labels, note = _labels(path, settings.labels, stored, count)
    notes += note
    if task == "segmentation" or (task is None and isinstance(value, Map | Pixels) and max(shape[:2]) > 1):
        segmented = Segmentation(labels)
        if settings.score_threshold is not None:
            segmented = Segmentation(labels, settings.score_threshold)
        return Meaning(layers, outputs, segmented, tuple(notes))
    if task == "multi-label":
        several = (
            MultiLabel(labels) if settings.score_threshold is None else MultiLabel(labels, settings.score_threshold)
        )
        return Meaning(layers, outputs, several, tuple(notes))
    is_likely = count in _OF_IMAGENET or (count >= LEAST_LOGITS and not _is_limited(layers, outputs[0]))
    if count == 1 or not (is_named or is_likely):
        numbers, how = ("one number", "") if count == 1 else (f"{count} numbers", ", --labels FILE names its labels")
        others = "multi-label" if count == 1 else "embedding, keypoints, multi-label"
        raise ImportedFileError(
            f"{path}: its result is {numbers}, which nothing says to be scores of labels that exclude one another: "
            f"--task raw takes it as numbers{how}, and there is --task {others}"
        )
    if not is_named:
        notes.append(
            f"its {count} numbers are taken for the logits of labels, though the file has no softmax: if they are "
            "something else, name it with --task"
        )
    return Meaning(layers, outputs, Classification(labels), tuple(notes))


def _likelier(count: int) -> str:
    """What so many numbers are more often than scores of labels, and the option for it; "" where nothing is."""
    if count in _POINTS:
        return f"as {_POINTS[count]} landmarks have: --task keypoints"
    return "as embeddings have: --task embedding" if count in _EMBEDDINGS else ""


def _is_limited(layers: Sequence[FloatLayer], name: str) -> bool:
    """Whether a vector is the result of a function or a product, perhaps pooled: features, and no logits."""
    made = {layer.name: layer for layer in layers}
    layer = made.get(name)
    while isinstance(layer, AveragePool | GlobalAverage | MaxPool):
        layer = made.get(layer.sources[0])
    return layer is not None and (layer.limits is not None or isinstance(layer, Function | Product))


def _keypoints(path: Path, settings: TaskSettings, numbers: int) -> Keypoints:
    points, rest = divmod(numbers, len(settings.point_layout))
    if rest:
        raise ImportedFileError(
            f"{path}: has {numbers} numbers, expected {len(settings.point_layout)} for each keypoint "
            f"(--point-layout {settings.point_layout})"
        )
    names = tuple(f"point {number}" for number in range(points))
    if settings.labels is not None:
        names = _labels(path, settings.labels, (), points)[0]
    return Keypoints(names, settings.point_layout, settings.point_unit)


def _raw(imported: Imported) -> Meaning:
    """All outputs under the names of the file; a note where the order of their numbers is another."""
    names: dict[str, str] = {}
    notes = list(imported.notes)
    for name, value in imported.outputs.items():
        maps = maps_of(value)
        for number, each in enumerate(maps):
            names.setdefault(each.tensor, name if len(maps) == 1 else f"{name}.{number}")
        if not isinstance(value, Map) and any(each.shape[:2] != (1, 1) for each in maps):
            notes.append(f"output {name}: its numbers are in the order of rows, columns and channels")
    return Meaning(imported.layers, tuple(names), Raw(tuple(names.values())), tuple(notes))


def _detection(
    imported: Imported, heads: Heads, settings: TaskSettings, stored: tuple[str, ...], path: Path
) -> Meaning:
    names = {name: maps_of(value)[0].tensor for name, value in imported.outputs.items()}
    own = heads.family.labels if len(heads.family.labels or ()) == heads.labels else None
    labels, named = _labels(path, settings.labels or own, stored, heads.labels)
    if not named and labels == _numbered(len(COCO)):
        labels, named = COCO, ["its 80 labels, of which nothing gives the names, are called as those of COCO"]
    try:
        meant = detection(heads, imported.layers, names, labels, settings, is_integer=bool(imported.quantized))
    except HeadError as error:
        raise ImportedFileError(f"{path}: {error}") from None
    note = f"what follows the {len(names)} last convolutions is left out"
    notes = (*imported.notes, *heads.notes, *named, note)
    return Meaning(meant.layers, meant.task.outputs, meant.task, notes, meant.parts)


def _labels(
    path: Path, given: tuple[str, ...] | None, stored: tuple[str, ...], count: int
) -> tuple[tuple[str, ...], list[str]]:
    """The names of labels and notes on them: those that are given, those of the file, or numbers."""
    if given is not None:
        if len(given) != count:
            raise ImportedFileError(f"{path}: has {count} labels, found {len(given)} names for them")
        return given, []
    if len(stored) == count:
        return stored, [f"the names of its {count} labels are those in the file"]
    unfit = [f"the file has {len(stored)} names for {count} labels: they are left out"] if stored else []
    return _numbered(count), unfit


def _numbered(count: int) -> tuple[str, ...]:
    return tuple(f"class {number}" for number in range(count))
