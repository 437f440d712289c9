"""Makes a detection of recognized heads: the task, and the convolutions that are its outputs."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from edgemeta.model.layers import Conv, Float32, FloatLayer
from edgemeta.model.tasks import Detection, DetectionLevel
from edgemeta.toolchain.importer.heads.levels import HeadError, Heads, Level
from edgemeta.toolchain.importer.heads.task_settings import TaskSettings


def detection(
    heads: Heads, layers: Sequence[FloatLayer], names: dict[str, str], labels: tuple[str, ...], settings: TaskSettings
) -> tuple[tuple[FloatLayer, ...], Detection]:
    """The layers, with joined convolutions split exactly by output channel, and the task.

    names: the layer that makes each tensor of the file. Raises HeadError.
    """
    by_name = {layer.name: layer for layer in layers}
    made: dict[str, list[FloatLayer]] = {}
    levels = []
    for level in heads.levels:
        ends = {name: _conv(by_name, names, name) for name in (level.boxes.tensor, level.classes.tensor)}
        boxes, classes = ends[level.boxes.tensor], ends[level.classes.tensor]
        objectness = names[level.objectness.tensor] if level.objectness else None
        if level.joined:
            parts = _split(boxes, level)
            made[boxes.name] = list(parts)
            box_name, objectness, class_name = (part.name for part in parts)
        else:
            if level.objectness:
                _conv(by_name, names, level.objectness.tensor)
            if level.first_class:
                made[classes.name] = [_without_background(classes, len(level.anchors))]
            box_name, class_name = boxes.name, classes.name
        levels.append(DetectionLevel(box_name, class_name, objectness, level.anchors, level.stride))
    changed = tuple(part for layer in layers for part in made.get(layer.name, [layer]))
    task = Detection(labels, heads.decoding, tuple(levels), heads.background, settings.box_order)
    given: dict[str, Any] = {
        "score_threshold": settings.score_threshold,
        "overlap_threshold": settings.overlap_threshold,
        "max_objects": settings.max_objects,
    }
    return changed, replace(task, **{key: value for key, value in given.items() if value is not None})


def renamed(task: Detection, names: Mapping[str, str]) -> Detection:
    """The same detection of outputs with other names."""
    levels = tuple(
        replace(
            level,
            boxes=names[level.boxes],
            classes=names[level.classes],
            objectness=level.objectness and names[level.objectness],
        )
        for level in task.levels
    )
    return replace(task, levels=levels)


def outputs_of(task: Detection) -> tuple[str, ...]:
    """The layers that a detection reads: of each level boxes, objectness, classes."""
    return tuple(
        name for level in task.levels for name in (level.boxes, level.objectness, level.classes) if name is not None
    )


def _conv(layers: dict[str, FloatLayer], names: dict[str, str], tensor: str) -> Conv[Float32]:
    layer = layers[names[tensor]]
    if not isinstance(layer, Conv):
        raise HeadError(f"output {tensor!r} is made by a {type(layer).__name__} layer, expected a convolution: name it")
    return layer


def _split(conv: Conv[Float32], level: Level) -> tuple[Conv[Float32], Conv[Float32], Conv[Float32]]:
    """Boxes, objectness and classes; all channels of an anchor stay together."""
    channels = np.arange(len(conv.real_weights)).reshape(len(level.anchors), -1)
    return (
        _part(conv, "boxes", channels[:, :4]),
        _part(conv, "objectness", channels[:, 4:5]),
        _part(conv, "classes", channels[:, 5:]),
    )


def _without_background(conv: Conv[Float32], anchors: int) -> Conv[Float32]:
    channels = np.arange(len(conv.real_weights)).reshape(anchors, -1)
    return replace(_part(conv, "", channels[:, 1:]), name=conv.name)


def _part(conv: Conv[Float32], what: str, channels: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> Conv[Float32]:
    """The convolution that gives some output channels of another one."""
    if conv.groups != 1:
        raise HeadError(f"convolution {conv.name!r} has {conv.groups} groups, expected 1")
    chosen = channels.ravel()
    bias = None if conv.bias is None else conv.bias[chosen]
    return replace(conv, name=f"{conv.name}.{what}", weights=conv.real_weights[chosen], bias=bias)
