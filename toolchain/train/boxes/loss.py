"""The loss of a detection without anchors, and which cells answer for a box.

A box is answered by the cells whose answer costs least (SimOTA, Ge et al. 2021, with the soft costs of RTMDet, Lyu et
al. 2022): among those in the box or near its centre, as many as the overlaps of the best add up to. Their label's score
is to be the overlap of their box with it (quality focal loss, Li et al. 2020), all other scores 0. Elsewhere all are 0
as far as a view knows: of what has a box it is known that it is nothing else. Answering boxes have the generalized
intersection over union.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from edgemeta.toolchain.train.boxes.network import LABEL_OVERLAP
from edgemeta.toolchain.train.detector.loss import generalized_overlap, overlap

BOX_WEIGHT = 2.0
_NEAR = 1.5
"""Cells whose middle is nearer to a box's centre than this many strides may answer, too."""
_MOST = 10
_FAR = 1e6


@dataclass(frozen=True, eq=False)
class Wanted:
    """The objects of one view: boxes float32 [n, 4], classes int64 [n]."""

    boxes: Tensor
    classes: Tensor


def flattened(outputs: tuple[Tensor, ...], cells: Tensor) -> tuple[Tensor, Tensor]:
    """Boxes x0, y0, x1, y1 in pixels [B, cells, 4] and logits [B, cells, labels] of the network's outputs, float32."""
    numbers, logits = (
        torch.cat([each.float().flatten(2) for each in outputs[first::2]], 2).transpose(1, 2) for first in (0, 1)
    )
    return decoded(numbers, cells), logits


def decoded(numbers: Tensor, cells: Tensor) -> Tensor:
    """Boxes of numbers [.., cells, 4] by decoding "yolox". cells: [cells, 3], middles and strides."""
    stride = cells[:, 2:]
    centre = cells[:, :2] + (numbers[..., :2] - 0.5) * stride
    half = torch.exp(numbers[..., 2:].clamp(max=6)) * stride / 2
    return torch.cat([centre - half, centre + half], -1)


def label_loss(boxes: Tensor, logits: Tensor, wanted: list[Wanted], known: Tensor, cells: Tensor) -> Tensor:
    """A scalar with a gradient. boxes, logits: of `flattened`; known: bool [B, cells, labels]."""
    targets, counts = torch.zeros_like(logits), known.clone()
    ours, theirs = [], []
    for number, objects in enumerate(wanted):
        if not len(objects.classes):
            continue
        cell, box, quality = answers(boxes[number].detach(), logits[number].detach(), objects, cells)
        label = objects.classes[box]
        counts[number] |= _same(boxes[number].detach(), objects.boxes)
        counts[number, cell] = True
        targets[number, cell, label] = quality
        ours.append(boxes[number, cell])
        theirs.append(objects.boxes[box])
    result = quality_focal(logits, targets, counts) / targets.sum().clamp(min=1.0)
    if ours:
        result = result + BOX_WEIGHT * (1 - generalized_overlap(torch.cat(ours), torch.cat(theirs))).mean()
    return result


def _same(boxes: Tensor, wanted: Tensor) -> Tensor:
    """Whether a cell's box [cells, 4] shows the object of one that is wanted [n, 4]: bool [cells, 1]."""
    return (overlap(boxes[:, None], wanted).nan_to_num(0.0) > LABEL_OVERLAP).any(1, keepdim=True)


def quality_focal(logits: Tensor, targets: Tensor, counts: Tensor) -> Tensor:
    """Sum of cross entropies of scores and targets 0..1, each times their squared difference; all [B, cells, n]."""
    apart = functional.binary_cross_entropy_with_logits(logits, targets, reduction="none")
    return (apart * (logits.sigmoid() - targets).square() * counts).sum()


def answers(boxes: Tensor, logits: Tensor, objects: Wanted, cells: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Which cells answer for which objects of one view, and the overlap of each: int64, int64, float32 [answers]."""
    wanted = objects.boxes
    middle, stride = cells[:, None, :2], cells[:, None, 2]
    centre = (wanted[:, :2] + wanted[:, 2:]) / 2
    inside = ((middle > wanted[:, :2]) & (middle < wanted[:, 2:])).all(-1)
    distance = (middle - centre).norm(dim=-1) / stride
    chosen = torch.nonzero((inside | (distance < _NEAR)).any(1)).squeeze(1)
    allowed = (inside | (distance < _NEAR))[chosen]
    shared = overlap(boxes[chosen, None], wanted).nan_to_num(0.0) * allowed
    score = logits[chosen][:, objects.classes]
    wrong = functional.binary_cross_entropy_with_logits(score, shared, reduction="none")
    cost = wrong * (score.sigmoid() - shared).square() - 3 * torch.log(shared + 1e-7)
    cost = cost + 10.0 ** (distance[chosen] - 3) + _FAR * ~allowed
    number = min(_MOST, len(chosen))
    counts = torch.topk(shared, number, 0).values.sum(0).int().clamp(min=1)
    nearest = torch.topk(cost, number, 0, largest=False).indices
    takes = torch.zeros_like(allowed)
    takes.scatter_(0, nearest, torch.arange(number, device=cost.device)[:, None] < counts)
    takes &= allowed
    best = cost.masked_fill(~takes, torch.inf).argmin(1)
    cell = torch.nonzero(takes.any(1)).squeeze(1)
    box = best[cell]
    return chosen[cell], box, shared[cell, box]


def teacher_loss(
    boxes: Tensor, logits: Tensor, their_boxes: Tensor, scores: Tensor, labels: Tensor, ruled: Tensor
) -> Tensor:
    """A scalar: how far the network is from a teacher's answers in the same cells.

    their_boxes [B, cells, 4], scores [B, cells, taught labels]: those; labels: their places among ours. ruled: bool
    [B, cells], where the teacher is not asked.
    """
    weight = scores.amax(-1) * ~ruled
    total = weight.sum().clamp(min=1.0)
    result = quality_focal(logits[..., labels], scores, ~ruled[..., None]) / total
    sure = weight > 0.05
    if bool(sure.any()):
        apart = 1 - generalized_overlap(boxes[sure], their_boxes[sure])
        result = result + BOX_WEIGHT * (apart * weight[sure]).sum() / total
    return result
