"""Retraining without labels: all outputs of the float network are imitated, whatever its task and its pictures.

Convolutions without a batch norm, as files of others have it folded into their weights, get one: it conditions the
training, keeps mean and variance of each channel while weights become powers of two, and costs nothing in the integer
network, whose tables compute it.
"""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from edgemeta.model.graph import FloatModel
from edgemeta.model.layers import BatchNorm, Conv, FloatLayer
from edgemeta.model.tasks import Classification
from edgemeta.toolchain.data.split import SPLIT_SEED, choose
from edgemeta.toolchain.errors import DataError
from edgemeta.toolchain.incremental.network import PartlyFrozen
from edgemeta.toolchain.incremental.retrain import Goal, NetworkLoss
from edgemeta.toolchain.incremental.settings import IncrementalSettings
from edgemeta.toolchain.quantize.calibration import PreparedImages
from edgemeta.toolchain.torch_network import TorchNetwork, imitation_loss
from edgemeta.toolchain.train.augment import STREAM_STUDENT, View, draw_view
from edgemeta.toolchain.train.batches import mixed_precision

_BATCH_PIXELS = 8 * 416 * 416
"""A batch has no more pixels: 3 GB of memory for YOLOX-nano."""
_EPS = 1e-5
_MOST = 16
"""Weights are multiplied by 2**-16 .. 2**16."""


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
    def held_out(self) -> NDArray[np.int64]:
        """Numbers [n] of the pictures that are only measured, ascending. Raises DataError."""
        if len(self.images) < 2:
            raise DataError(f"there are {len(self.images)} pictures, expected at least 2 to hold out a part")
        alike = np.zeros(len(self.images), np.int64)
        return np.flatnonzero(choose(alike, self.digests, self.share, SPLIT_SEED, self.digests))

    @property
    def learned(self) -> NDArray[np.int64]:
        """Numbers [n] of the others, ascending."""
        return np.setdiff1d(np.arange(len(self.images)), self.held_out)

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


def without_norm(model: FloatModel) -> frozenset[str]:
    """Convolutions that no batch norm reads, but those of logits, which are compared, and so have one step."""
    norms = {layer.input for layer in model.layers if isinstance(layer, BatchNorm)}
    logits = model.outputs if isinstance(model.task, Classification) else ()
    return frozenset(layer.name for layer in model.layers if isinstance(layer, Conv)).difference(norms, logits)


def with_norms(model: FloatModel, inputs: Iterable[Tensor]) -> FloatModel:
    """The network with a batch norm behind each convolution of `without_norm` that a layer reads; it gives the same.

    The weights of each channel are multiplied by the power of two that brings their root of the sum of squares nearest
    to 1, whatever the numbers that the layer reads: one learning rate then fits all layers.
    inputs: batches [B, C, H, W] of the network's own input, for mean and variance of each channel.
    """
    names = [name for name in sorted(without_norm(model)) if name not in model.outputs]
    moments = _moments(TorchNetwork(model).eval(), names, inputs)
    layers: list[FloatLayer] = []
    renamed: dict[str, str] = {}
    for layer in model.layers:
        layer = layer.renamed(layer.name, [renamed.get(name, name) for name in layer.sources])
        if layer.name not in moments:
            layers.append(layer)
            continue
        assert isinstance(layer, Conv)
        mean, variance = (each.numpy().astype(np.float32) for each in moments[layer.name])
        size = np.sqrt(np.square(layer.real_weights.astype(np.float64)).sum((1, 2, 3)))
        factor = np.exp2(-np.rint(np.log2(size.clip(2.0**-_MOST, 2.0**_MOST)))).astype(np.float32)
        bias = None if layer.bias is None else layer.bias * factor
        layers.append(replace(layer, weights=layer.real_weights * factor[:, None, None, None], bias=bias))
        renamed[layer.name] = f"{layer.name}.norm"
        scaled = variance * np.square(factor)
        gamma = np.sqrt(scaled + np.float32(_EPS)) / factor
        layers.append(BatchNorm(renamed[layer.name], layer.name, gamma, mean, mean * factor, scaled, _EPS))
    return replace(model, layers=tuple(layers))


def _moments(network: TorchNetwork, names: list[str], inputs: Iterable[Tensor]) -> dict[str, tuple[Tensor, Tensor]]:
    """Mean and variance of each channel of these tensors, float64 [C]."""
    sums = {name: torch.zeros(3, 1, dtype=torch.float64) for name in names}
    with torch.no_grad():
        for x in inputs:
            for name, value in zip(names, network.values(x, names), strict=True):
                flat = value.transpose(0, 1).flatten(1).double()
                count = torch.full((len(flat),), flat.shape[1], dtype=torch.float64)
                sums[name] = sums[name] + torch.stack([flat.sum(1), flat.square().sum(1), count])
    means = {name: (each[0] / each[2], each[1] / each[2]) for name, each in sums.items()}
    return {name: (mean, (square - mean.square()).clamp(min=0)) for name, (mean, square) in means.items()}
