"""Retraining without labels: all outputs of the float network are imitated, whatever its task and its pictures."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from edgemeta.model.graph import FloatModel
from edgemeta.toolchain.data.split import SPLIT_SEED, choose
from edgemeta.toolchain.errors import DataError
from edgemeta.toolchain.incremental.network import PartlyFrozen
from edgemeta.toolchain.incremental.retrain import Goal, NetworkLoss
from edgemeta.toolchain.incremental.settings import IncrementalSettings
from edgemeta.toolchain.quantize.calibration import PreparedImages
from edgemeta.toolchain.torch_network import TorchNetwork
from edgemeta.toolchain.train.augment import STREAM_STUDENT, View, draw_view
from edgemeta.toolchain.train.batches import mixed_precision

_BATCH_PIXELS = 8 * 416 * 416
"""A batch has no more pixels: 3 GB of memory for YOLOX-nano."""
_TINY = 1e-30


@dataclass(frozen=True, eq=False)
class PictureParts:
    """Pictures in two parts, always the same ones of the same pictures. share: that is held out, above 0, below 1."""

    images: PreparedImages
    share: float

    @cached_property
    def digests(self) -> list[str]:
        """SHA-256 (hex) of the integers of each picture."""
        return [hashlib.sha256(image.tobytes()).hexdigest() for image in self.images]

    @cached_property
    def is_held_out(self) -> NDArray[np.bool_]:
        """Which pictures are held out, bool [N]. Raises DataError."""
        if len(self.digests) < 2:
            raise DataError(f"there are {len(self.digests)} pictures, expected at least 2 to hold out a part")
        return choose(np.zeros(len(self.digests), np.int64), self.digests, self.share, SPLIT_SEED, self.digests)

    @property
    def held_out(self) -> NDArray[np.int64]:
        """Numbers of the pictures that are only measured, ascending."""
        return np.flatnonzero(self.is_held_out)

    @property
    def learned(self) -> NDArray[np.int64]:
        """Numbers of the others, ascending."""
        return np.flatnonzero(~self.is_held_out)

    def views(self, numbers: NDArray[np.int64], view: View, index: NDArray[np.int64], pad: int) -> Tensor:
        """The network's input [B, C, H, W] for the places `index` [B] in `numbers`, mirrored and shifted as views."""
        images = []
        for place in index.tolist():
            image = np.pad(self.images[int(numbers[place])][0], ((pad, pad), (pad, pad), (0, 0)), mode="reflect")
            top, left = int(view.dy[place]), int(view.dx[place])
            image = image[top : top + image.shape[0] - 2 * pad, left : left + image.shape[1] - 2 * pad]
            images.append(image[:, ::-1] if view.flip[place] else image)
        return self._tensor(images)

    def batches(self, numbers: NDArray[np.int64], batch: int) -> Iterator[Tensor]:
        """The network's input [B, C, H, W] for pictures of these numbers [n], at most `batch` at a time."""
        for first in range(0, len(numbers), batch):
            yield self._tensor([self.images[number][0] for number in numbers[first : first + batch].tolist()])

    def _tensor(self, images: list[Any]) -> Tensor:
        return torch.from_numpy(self.images.real(np.stack(images))).permute(0, 3, 1, 2)

    def sha256(self) -> str:
        """SHA-256 (hex) of all pictures."""
        return hashlib.sha256("".join(self.digests).encode()).hexdigest()


def batch_of(model: FloatModel, settings: IncrementalSettings, images: int) -> int:
    """Pictures of a step: those of the settings, fewer where they are large or there are fewer `images`."""
    rows, columns, _ = model.input_shape
    return max(1, min(settings.batch, images, _BATCH_PIXELS // (rows * columns)))


def imitation_loss(outputs: tuple[Tensor, ...], targets: tuple[Tensor, ...]) -> Tensor:
    """The mean over all outputs of mean((y - t)^2) / variance(t), of outputs y and targets t, both [B, C, H, W].

    The variance is that of all elements of t in the batch.
    """
    errors = [
        (output.float() - target).square().mean() / target.var(correction=0).clamp(min=_TINY)
        for output, target in zip(outputs, targets, strict=True)
    ]
    return torch.stack(errors).mean()


def imitation(model: FloatModel, parts: PictureParts, settings: IncrementalSettings) -> Goal:
    """The float network's outputs for the same view of each picture, the loss being `imitation_loss`.

    Measured is 100 (1 - error), the error being the loss on all pictures that are held out.
    """
    teacher, learned = TorchNetwork(model).eval(), parts.learned
    teacher.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    batch = batch_of(model, settings, len(learned))

    def compared(network: PartlyFrozen, x: Tensor) -> Tensor:
        with mixed_precision():
            outputs = network.chain.values(x, model.outputs)
            with torch.no_grad():
                targets = tuple(each.float() for each in teacher.values(x, model.outputs))
        return imitation_loss(outputs, targets)

    def losses(epoch: int) -> NetworkLoss:
        view = draw_view(settings.seed, STREAM_STUDENT, epoch, len(learned), settings.pad, 0.0)
        return lambda network, index: compared(network, parts.views(learned, view, index, settings.pad))

    def measure(candidate: nn.Module) -> float:
        assert isinstance(candidate, PartlyFrozen)
        candidate.eval()
        errors = []
        with torch.no_grad():
            for x in parts.batches(parts.held_out, batch):
                errors += [float(compared(candidate, x))] * len(x)
        return round(100.0 * (1.0 - float(np.mean(errors))), 3)

    return Goal(len(learned), batch, losses, measure)
