"""Makes a detection of recognized heads: the task, and the convolutions that are its outputs."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from edgemeta.model.layers import Concat, Conv, DepthToSpace, Float32, FloatLayer, Slice
from edgemeta.model.tasks import Detection, DetectionLevel, ObjectMasks, ObjectPoints
from edgemeta.toolchain.importer.heads.ends import HeadError
from edgemeta.toolchain.importer.heads.layouts import Part
from edgemeta.toolchain.importer.heads.levels import Heads
from edgemeta.toolchain.importer.heads.task_settings import TaskSettings


@dataclass(frozen=True)
class Meant:
    """A detection's layers and task. parts: layers that are some output channels of a layer of the file, by name."""

    layers: tuple[FloatLayer, ...]
    task: Detection
    parts: Mapping[str, tuple[str, tuple[int, ...]]]


def detection(
    heads: Heads,
    layers: Sequence[FloatLayer],
    names: dict[str, str],
    labels: tuple[str, ...],
    settings: TaskSettings,
    *,
    is_integer: bool = False,
) -> Meant:
    """The layers, with joined convolutions split exactly by output channel, and the task.

    names: the layer that makes each tensor of the file. is_integer: two tensors that one output would join have scales
    of their own, so they stay apart. Raises HeadError.
    """
    by_name = {layer.name: layer for layer in layers}
    uses = Counter(part.end.tensor for level in heads.levels for part in level.parts)
    made: dict[str, list[FloatLayer]] = {}
    parts: dict[str, tuple[str, tuple[int, ...]]] = {}
    beside: list[FloatLayer] = []
    split: set[str] = set()

    def output(part: Part, what: str) -> str:
        """The layer that gives a part; its convolution, and the activation that the file has behind it, are split."""
        whole = by_name[names[part.end.tensor]]
        if part.beside is not None and not is_integer:
            beside.append(Concat(f"{whole.name}.{what}", (whole.name, names[part.beside.tensor])))
            return beside[-1].name
        if part.channels is None:
            return whole.name
        name = f"{whole.name}.{what}" if uses[part.end.tensor] > 1 else whole.name
        behind, conv = (None, whole) if whole.limits is None else (whole, by_name[whole.sources[0]])
        is_range = part.channels == tuple(range(min(part.channels), max(part.channels) + 1))
        if isinstance(conv, DepthToSpace) and is_range and not is_integer:
            height, width, _ = part.end.shape
            start, stop = (0, 0, min(part.channels)), (height, width, max(part.channels) + 1)
            beside.append(Slice(f"{whole.name}.{what}", whole.name, start=start, stop=stop))
            return beside[-1].name
        if not isinstance(conv, Conv):
            raise HeadError(
                f"output {part.end.tensor!r} is made by a {type(conv).__name__} layer, expected a convolution"
            )
        taken = _part(conv, name if behind is None else f"{name}.sums", part.channels)
        made.setdefault(whole.name, []).append(taken)
        parts[taken.name] = (conv.name, part.channels)
        if behind is not None:
            split.add(conv.name)
            made[whole.name].append(behind.renamed(name, (taken.name,)))
            parts[name] = (whole.name, part.channels)
        return name

    levels = tuple(
        DetectionLevel(
            boxes=output(level.boxes, "boxes") if level.boxes else None,
            objectness=output(level.objectness, "objectness") if level.objectness else None,
            classes=output(level.classes, "classes"),
            anchors=level.anchors,
            stride=level.stride,
            extras=output(level.extras, "extras") if level.extras else None,
            sizes=names[level.boxes.beside.tensor] if is_integer and level.boxes and level.boxes.beside else None,
        )
        for level in heads.levels
    )
    changed: tuple[FloatLayer, ...] = tuple(part for layer in layers for part in made.get(layer.name, [layer]))
    read = {name for layer in changed for name in layer.sources}
    changed = tuple(layer for layer in changed if layer.name not in split or layer.name in read)
    extras: ObjectPoints | ObjectMasks | None = None
    if heads.extras is not None:
        extras = heads.extras.points
        if heads.extras.prototypes is not None:
            extras = ObjectMasks(names[heads.extras.prototypes])
    task = Detection(labels, levels=levels, extras=extras, **vars(heads.formula))
    given: dict[str, Any] = {
        "score_threshold": settings.score_threshold,
        "overlap_threshold": settings.overlap_threshold or heads.overlap,
        "max_objects": settings.max_objects,
    }
    task = replace(task, **{key: value for key, value in given.items() if value is not None})
    return Meant((*changed, *beside), task, parts)


def renamed(task: Detection, names: Mapping[str, str]) -> Detection:
    """The same detection of outputs with other names."""
    levels = tuple(
        replace(
            level,
            boxes=level.boxes and names[level.boxes],
            classes=names[level.classes],
            objectness=level.objectness and names[level.objectness],
            extras=level.extras and names[level.extras],
            sizes=level.sizes and names[level.sizes],
        )
        for level in task.levels
    )
    extras = task.extras
    if isinstance(extras, ObjectMasks):
        extras = ObjectMasks(names[extras.prototypes])
    return replace(task, levels=levels, extras=extras)


def _part(conv: Conv[Float32], name: str, channels: tuple[int, ...]) -> Conv[Float32]:
    """The convolution that gives some output channels of another one."""
    if conv.groups != 1:
        raise HeadError(f"convolution {conv.name!r} has {conv.groups} groups, expected 1")
    chosen = list(channels)
    bias = None if conv.bias is None else conv.bias[chosen]
    return replace(conv, name=name, weights=conv.real_weights[chosen], bias=bias)
