"""The training of a detector of own pictures, by the epoch loop that all trainings share."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from edgemeta.tasks.detection.objects import Object
from edgemeta.toolchain.data.boxed_images import BoxedImages
from edgemeta.toolchain.data.boxes.pictures import ReadPictures
from edgemeta.toolchain.evaluate.average_precision import WATCHED_SCORE, Precision, mean_average_precision
from edgemeta.toolchain.evaluate.float_detector import FloatDetector
from edgemeta.toolchain.progress import Reporter
from edgemeta.toolchain.torch_network import TorchNetwork
from edgemeta.toolchain.train.augment import STREAM_MOSAIC, STREAM_ORDER, generator
from edgemeta.toolchain.train.batches import mixed_precision, network_input
from edgemeta.toolchain.train.boxes.ahead import ahead
from edgemeta.toolchain.train.boxes.hints import Hints, features
from edgemeta.toolchain.train.boxes.loss import Wanted, flattened, label_loss, teacher_loss
from edgemeta.toolchain.train.boxes.network import Size
from edgemeta.toolchain.train.boxes.recipe import BoxRecipe
from edgemeta.toolchain.train.boxes.teacher import BoxTeacher
from edgemeta.toolchain.train.boxes.views import BoxView, cells, draw_view
from edgemeta.toolchain.train.checkpoint import RunIdentity
from edgemeta.toolchain.train.loop import BatchLoss, Trained, Training, run_epochs
from edgemeta.toolchain.train.optimizer_step import OptimizerStep, parameter_groups
from edgemeta.toolchain.train.student import warmed_rates

_BATCH = 50
_ENOUGH = 10
"""Boxes of a label from which on its precision helps to choose the epoch."""

Rounded: TypeAlias = Callable[[TorchNetwork], TorchNetwork]


@dataclass(frozen=True, eq=False)
class BoxRun:
    """Everything that decides a training. pictures: of the training; measured: letterboxed, to choose the best epoch.

    folder: of the checkpoints network.pt and, for the epochs at 8 bits, quantized.pt. rounded: makes a network compute
    in 8 bits. device: of all epochs but those at 8 bits, which the processor computes.
    """

    recipe: BoxRecipe
    pictures: ReadPictures
    measured: BoxedImages
    teacher: BoxTeacher | None
    folder: Path
    identity: RunIdentity
    reporter: Reporter
    rounded: Rounded
    device: str = "cpu"

    def train(self, network: TorchNetwork) -> Trained[TorchNetwork]:
        """Train, or continue; returns the best epoch, or the best of those at 8 bits where there are such."""
        recipe = self.recipe
        watched = WatchedBoxes(network, self.measured)
        taught = Taught(network, self.teacher)
        taught.to(self.device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        trained = self._stage(taught, watched, recipe, 0, "network.pt", self.identity)
        trained.network.cpu()
        if not recipe.quantized_epochs:
            return Trained(trained.network.network, trained.epoch, trained.accuracy)
        rounded = Taught(self.rounded(trained.network.network), None)
        if self.teacher is not None:
            self.teacher.move("cpu")
        last = replace(
            recipe,
            epochs=recipe.quantized_epochs,
            lr=recipe.quantized_lr,
            warmup_epochs=0.5,
            plain=1.0,
            small=0.0,
            ema=None,  # an average of rounded networks would have ranges that none of them has observed
            evaluate_every=max(1, recipe.quantized_epochs // 4),
        )
        steps = f"{self.identity.recipe} {recipe.quantized_epochs} {recipe.quantized_lr}"
        identity = replace(self.identity, recipe=hashlib.sha256(steps.encode()).hexdigest())
        trained = self._stage(rounded, watched, last, recipe.epochs, "quantized.pt", identity)
        return Trained(trained.network.network, recipe.epochs + trained.epoch, trained.accuracy)

    def _stage(
        self,
        network: "Taught",
        watched: "WatchedBoxes",
        recipe: BoxRecipe,
        first: int,
        checkpoint: str,
        identity: RunIdentity,
    ) -> Trained["Taught"]:
        pictures = len(self.pictures)
        images = pictures * -(-recipe.least_views // pictures) if pictures < recipe.least_views else pictures
        batch = min(recipe.batch, images)
        steps = images // batch

        def order(epoch: int) -> NDArray[np.int64]:
            return generator(recipe.seed, STREAM_ORDER, first + epoch).permutation(images) % pictures

        def losses(epoch: int) -> BatchLoss:
            rng = generator(recipe.seed, STREAM_MOSAIC, first + epoch)
            mosaics = epoch < (1 - recipe.plain) * recipe.epochs
            settings = recipe.views if mosaics else replace(recipe.views, mosaic=0.0)
            size = recipe.size(network.size, epoch)

            def draw(index: NDArray[np.int64]) -> list[BoxView]:
                return [draw_view(self.pictures.pictures, i, size, settings, rng) for i in index.tolist()]

            def loss(_: NDArray[np.int64]) -> Tensor:
                return self._loss(network, next(drawn))

            drawn = ahead(draw(index) for index in np.split(order(epoch)[: steps * batch], steps))
            return loss

        training = Training(
            stage="training",
            network=network,
            step=OptimizerStep(torch.optim.AdamW(parameter_groups(network, recipe.weight_decay), lr=recipe.lr)),
            epochs=recipe.epochs,
            images=images,
            batch=batch,
            order=order,
            rates=warmed_rates(recipe.lr, recipe.warmup_epochs, recipe.epochs, steps),
            losses=losses,
            measure=watched.percent,
            evaluate_every=recipe.evaluate_every,
            average=recipe.ema,
            keep_best=True,
            report_every=10,
            first_epoch=first,
            all_epochs=self.recipe.epochs + self.recipe.quantized_epochs,
        )
        return run_epochs(training, self.folder / checkpoint, identity, self.reporter)

    def _loss(self, network: "Taught", views: list[BoxView]) -> Tensor:
        """Of one batch of views, on the network's device."""
        device = device_of(network)
        grid = torch.from_numpy(cells(views[0].pixels.shape[:2])).to(device)
        x = network_input(np.stack([view.pixels for view in views]).transpose(0, 3, 1, 2)).to(device)
        with mixed_precision(device.type):
            outputs, read = network.with_features(x)
        boxes, logits = flattened(outputs, grid)
        wanted = [
            Wanted(torch.from_numpy(view.boxes).to(device), torch.from_numpy(view.classes).to(device)) for view in views
        ]
        known = torch.from_numpy(np.stack([view.known for view in views])).to(device)
        result = label_loss(boxes, logits, wanted, known, grid)
        if self.teacher is None:
            return result
        labels, theirs = self.teacher.labels, self.teacher.answers(x, grid)
        ruled = torch.stack([_ruled(each, labels, grid) for each in wanted])
        result = result + self.recipe.taught * teacher_loss(boxes, logits, theirs.boxes, theirs.scores, labels, ruled)
        if network.hints is None:
            return result
        with mixed_precision(device.type):
            return result + self.recipe.hinted * network.hints.loss(read, theirs.features)


class Taught(nn.Module):
    """A network with the maps of its features to those of a teacher. It computes what the network does.

    hints: None without a teacher.
    """

    def __init__(self, network: TorchNetwork, teacher: BoxTeacher | None) -> None:
        super().__init__()
        self.network = network
        self._read = features(network, network.outputs[1::2])
        self.hints = None if teacher is None else Hints(tuple(zip(self._read.values(), teacher.widths, strict=True)))

    @property
    def size(self) -> Size:
        """Of the input."""
        return self.network.input_size

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        """The network's outputs, each [B, C, H, W], of x [B, 3, H, W]."""
        return self.with_features(x)[0]

    def with_features(self, x: Tensor) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """The network's outputs, and what the last convolutions of each grid read, [B, C, H, W], the finest first."""
        outputs = self.network.outputs
        found = self.network.values(self.network.own_input(x), (*outputs, *self._read))
        return found[: len(outputs)], found[len(outputs) :]


def device_of(network: nn.Module) -> torch.device:
    """Where a network's weights are."""
    return next(network.parameters()).device


def _ruled(wanted: Wanted, taught: Tensor, grid: Tensor) -> Tensor:
    """Cells in a box of a label that the teacher does not know: it would give another name. Bool [cells]."""
    boxes = wanted.boxes[~torch.isin(wanted.classes, taught)]
    middle = grid[:, None, :2]
    return ((middle > boxes[:, :2]) & (middle < boxes[:, 2:])).all(-1).any(1)


class WatchedBoxes:
    """The pictures on which epochs are measured."""

    def __init__(self, network: TorchNetwork, measured: BoxedImages) -> None:
        model = network.written()
        self._detector = FloatDetector(model, dict.fromkeys(model.labels, WATCHED_SCORE))
        self._measured = measured

    def found(self, network: nn.Module) -> list[tuple[Object, ...]]:
        """The objects in each of the pictures."""
        network.eval()
        found = []
        for first in range(0, len(self._measured), _BATCH):
            pixels = self._measured.x[first : first + _BATCH].transpose(0, 3, 1, 2)
            device = device_of(network)
            with torch.no_grad(), mixed_precision(device.type):
                outputs = network(network_input(pixels).to(device))
            maps = [each.float().cpu().permute(0, 2, 3, 1).numpy() for each in outputs]
            found += [self._detector.objects([each[i : i + 1] for each in maps]) for i in range(len(maps[0]))]
        return found

    def judge(self, found: list[tuple[Object, ...]]) -> Precision:
        """Mean average precision, and of each label, of the objects found."""
        return mean_average_precision(found, self._measured)

    def percent(self, network: nn.Module) -> float:
        """Mean average precision at an overlap of one half, in percent, of the labels that have enough boxes to say."""
        labels = self.judge(self.found(network)).labels
        enough = [each for each in labels if each.boxes >= _ENOUGH] or labels
        return round(100 * float(np.mean([each.at_half for each in enough])), 3) if enough else 0.0
