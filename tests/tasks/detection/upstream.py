"""An oracle of its own: objects by PyTorch, written from the upstream projects' definitions.

YOLOX: `decode_outputs` of yolo_head.py. YOLOv3: section 2.1 of the paper. YOLOv5: Detect of models/yolo.py. YOLOv8:
DFL, make_anchors with offset 0.5 and dist2bbox. SSD: decode with variances 0.1 and 0.2 of the original, in the order of
TensorFlow's box coder for "yxhw". Linear: MediaPipe's TensorsToDetectionsCalculator. FastestDet: handle_preds of its
utils/tool.py.
Suppression: greedy, in the order of scores, within a label.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from edgemeta.model.graph import Model
from edgemeta.model.tasks import Detection

Found = list[tuple[str, float, list[float]]]


def upstream_objects(model: Model, outputs: tuple[NDArray[Any], ...]) -> Found:
    """Label, score and box of each object, best first."""
    task = model.task
    assert isinstance(task, Detection)
    real = {
        name: torch.from_numpy((out.astype(np.float64) - kind.zero_point) * model.steps(name))
        for name, out, kind in zip(model.outputs, outputs, model.output_types, strict=True)
    }
    boxes, scores, labels = [], [], []
    for level in task.levels:
        height, width = real[level.classes].shape[:2]
        anchors = max(1, len(level.anchors))
        t = torch.zeros(height, width, 1, 4) if level.boxes is None else real[level.boxes]
        t = t.reshape(height, width, anchors, -1)
        boxes.append(_boxes(task, t, level.anchors, model.input.shape[:2]).reshape(-1, 4))
        classes = real[level.classes].reshape(height * width * anchors, -1)
        if task.background:
            score, label = classes.softmax(1)[:, 1:].max(1)
        else:
            score, label = (classes.softmax(1) if task.softmax else classes.sigmoid()).max(1)
        if level.objectness is not None:
            gate = real[level.objectness].reshape(-1).sigmoid()
            score = gate**0.6 * score**0.4 if task.decoding == "fastestdet" else score * gate
        scores.append(score)
        labels.append(label)
    box, score, label = torch.cat(boxes), torch.cat(scores), torch.cat(labels)
    order = score.sort(descending=True, stable=True).indices
    order = order[score[order] >= task.score_threshold]
    limit = torch.tensor([model.input.shape[1], model.input.shape[0]] * 2, dtype=torch.float64)
    inside = torch.minimum(box.clamp(min=0), limit)
    order = order[((inside[:, 2:] - inside[:, :2]) > 0).all(1)[order]]  # ours alone: upstream keeps those outside
    kept: list[int] = []
    for i in order.tolist():
        same = [j for j in kept if label[j] == label[i]]
        if all(_iou(box[i], box[j]) <= task.overlap_threshold for j in same):
            kept.append(i)
    return [(task.labels[int(label[i])], float(score[i]), inside[i].tolist()) for i in kept[: task.max_objects]]


def _boxes(task: Detection, t: torch.Tensor, anchors: Any, image: tuple[int, ...]) -> torch.Tensor:
    height, width = t.shape[:2]
    stride = torch.tensor([image[1] / width, image[0] / height], dtype=torch.float64)
    y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    grid = torch.stack([x, y], 2).double()[:, :, None]
    sides = torch.tensor(anchors or [(1.0, 1.0)], dtype=torch.float64)
    if task.decoding == "yolov8":
        bins = t.reshape(height, width, 1, 4, -1).softmax(4)
        t = bins @ torch.arange(bins.shape[4]).double()
    if task.decoding == "exponential":
        t = t.clamp(max=20).exp()
    if task.decoding in ("yolov8", "distances", "exponential"):
        unit = sides if anchors else stride
        centre = (grid + 0.5) * stride
        return torch.cat([centre - t[..., :2] * unit, centre + t[..., 2:] * unit], 3)
    if task.decoding == "cells":
        return torch.cat([grid * stride, (grid + 1) * stride], 3)
    if task.decoding == "yolox":
        centre, size = (t[..., :2] + grid) * stride, t[..., 2:].exp() * stride
    elif task.decoding == "yolov3":
        centre, size = (t[..., :2].sigmoid() + grid) * stride, t[..., 2:].exp() * sides
    elif task.decoding == "yolov5":
        t = t.sigmoid()
        centre, size = (t[..., :2] * 2 - 0.5 + grid) * stride, (t[..., 2:] * 2) ** 2 * sides
    elif task.decoding == "linear":
        unit = sides if anchors else stride
        centre, size = (grid + 0.5) * stride + t[..., :2] * unit, t[..., 2:] * unit
    elif task.decoding == "fastestdet":
        centre, size = (t[..., :2].tanh() + grid) * stride, t[..., 2:].sigmoid() * sides
    else:
        if task.box_order == "yxhw":
            ty, tx, th, tw = t.unbind(3)
            t = torch.stack([tx, ty, tw, th], 3)
        prior = (grid + 0.5) * stride
        centre, size = prior + t[..., :2] * 0.1 * sides, sides * (t[..., 2:] * 0.2).exp()
    return torch.cat([centre - size / 2, centre + size / 2], 3)


def _iou(a: torch.Tensor, b: torch.Tensor) -> float:
    sides = (torch.minimum(a[2:], b[2:]) - torch.maximum(a[:2], b[:2])).clamp(min=0)
    shared = sides.prod()
    return float(shared / ((a[2:] - a[:2]).prod() + (b[2:] - b[:2]).prod() - shared))
