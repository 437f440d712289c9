"""A detection that teaches another: its boxes and scores, cell by cell, on the very views that are trained on."""

from pathlib import Path

import torch
from torch import Tensor

from edgemeta.model.float_file import load_float_model
from edgemeta.model.tasks import Detection
from edgemeta.toolchain.errors import DataError
from edgemeta.toolchain.torch_network import TorchNetwork
from edgemeta.toolchain.train.batches import mixed_precision
from edgemeta.toolchain.train.boxes.loss import decoded
from edgemeta.toolchain.train.boxes.network import STRIDES


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
        self._levels = [
            tuple(
                -1 if name is None else model.outputs.index(name)
                for name in (each.boxes, each.objectness, each.classes)
            )
            for each in task.levels
        ]
        self._network = TorchNetwork(model).eval().requires_grad_(False)
        self._network.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]

    def move(self, device: str) -> None:
        """Compute on another device from now on."""
        self._network.to(device)
        self.labels = self.labels.to(device)

    def answers(self, x: Tensor, cells: Tensor) -> tuple[Tensor, Tensor]:
        """Boxes [B, cells, 4] in pixels and scores [B, cells, taught] for network input x [B, 3, S, S]."""
        with torch.no_grad(), mixed_precision(x.device.type):
            own = self._network.own_input(x).contiguous(memory_format=torch.channels_last)
            outputs = self._network.values(own, self._network.outputs)
        # the finest grid first, as `cells` has them
        levels = sorted(self._levels, key=lambda level: -outputs[level[0]].shape[-1])
        numbers, scores = [], []
        for boxes, objectness, classes in levels:
            numbers.append(_rows(outputs[boxes]))
            score = _rows(outputs[classes]).sigmoid()
            scores.append(score if objectness < 0 else score * _rows(outputs[objectness]).sigmoid())
        return decoded(torch.cat(numbers, 1), cells), torch.cat(scores, 1)[..., self._theirs]


def _rows(output: Tensor) -> Tensor:
    """[B, H W, C] of an output [B, C, H, W], float32."""
    return output.float().flatten(2).transpose(1, 2)
