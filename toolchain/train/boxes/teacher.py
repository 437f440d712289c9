"""A detection that teaches another, cell by cell, on the very views that are trained on."""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from edgemeta.model.float_file import load_float_model
from edgemeta.model.tasks import Detection
from edgemeta.toolchain.errors import DataError
from edgemeta.toolchain.torch_network import TorchNetwork
from edgemeta.toolchain.train.batches import mixed_precision
from edgemeta.toolchain.train.boxes.hints import features
from edgemeta.toolchain.train.boxes.loss import decoded
from edgemeta.toolchain.train.boxes.network import STRIDES


@dataclass(frozen=True, eq=False)
class Answers:
    """Of a teacher.

    boxes: [B, cells, 4] in pixels. scores: [B, cells, taught]. features: [B, C, H, W] of each grid, the finest first:
    what its last convolutions read.
    """

    boxes: Tensor
    scores: Tensor
    features: tuple[Tensor, ...]


class BoxTeacher:
    """A float model of decoding "yolox" with grids of 8, 16 and 32 pixels, such as an imported YOLOX.

    labels: places among the trained labels of those that it knows by name, int64 [taught].
    """

    def __init__(self, path: Path, labels: tuple[str, ...], device: str = "cpu") -> None:
        """device: as PyTorch names it.

        Raises DataError for another kind of model, or one that knows none of the labels; ModelError.
        """
        model = load_float_model(path)
        task = model.task
        if not isinstance(task, Detection) or task.decoding != "yolox" or len(task.levels) != len(STRIDES):
            raise DataError(f"{path}: is no detection of decoding yolox with three grids, expected one to learn from")
        self._theirs = [task.labels.index(label) for label in labels if label in task.labels]
        if not self._theirs:
            raise DataError(f"{path}: knows none of the labels {', '.join(labels)[:200]}, expected some of them")
        self.labels = torch.tensor([place for place, label in enumerate(labels) if label in task.labels], device=device)
        self._network = TorchNetwork(model).eval().requires_grad_(False)
        sizes = dict(zip(model.outputs, self._network(torch.zeros(1, 3, 64, 64)), strict=True))
        levels = sorted(task.levels, key=lambda level: -sizes[level.classes].shape[-1])  # as `cells` has them
        self._levels = [(str(each.boxes), each.objectness, each.classes) for each in levels]
        self._read = [features(self._network, (level[2], level[0])) for level in self._levels]
        self._network.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]

    def move(self, device: str) -> None:
        """Compute on another device from now on."""
        self._network.to(device)
        self.labels = self.labels.to(device)

    @property
    def widths(self) -> tuple[int, ...]:
        """Channels of the features of each grid, the finest first."""
        return tuple(sum(read.values()) for read in self._read)

    def answers(self, x: Tensor, cells: Tensor) -> Answers:
        """Those for network input x [B, 3, S, S]."""
        names = tuple(dict.fromkeys([*self._network.outputs, *(name for read in self._read for name in read)]))
        with torch.no_grad(), mixed_precision(x.device.type):
            own = self._network.own_input(x).contiguous(memory_format=torch.channels_last)
            found = dict(zip(names, self._network.values(own, names), strict=True))
        numbers, scores = [], []
        for boxes, objectness, classes in self._levels:
            numbers.append(_rows(found[boxes]))
            score = _rows(found[classes]).sigmoid()
            scores.append(score if objectness is None else score * _rows(found[objectness]).sigmoid())
        read = tuple(torch.cat([found[name] for name in names], 1) for names in self._read)
        return Answers(decoded(torch.cat(numbers, 1), cells), torch.cat(scores, 1)[..., self._theirs], read)


def _rows(output: Tensor) -> Tensor:
    """[B, H W, C] of an output [B, C, H, W], float32."""
    return output.float().flatten(2).transpose(1, 2)
