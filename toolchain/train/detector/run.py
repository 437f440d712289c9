"""The training of a detector, by the epoch loop that all trainings share."""

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from edgemeta.toolchain.data.boxed_images import BoxedImages
from edgemeta.toolchain.errors import DataError
from edgemeta.toolchain.evaluate.average_precision import WATCHED_SCORE, mean_average_precision
from edgemeta.toolchain.evaluate.float_detector import FloatDetector
from edgemeta.toolchain.progress import Reporter
from edgemeta.toolchain.torch_network import TorchNetwork
from edgemeta.toolchain.train.augment import STREAM_ORDER, STREAM_STUDENT, generator
from edgemeta.toolchain.train.batches import mixed_precision, network_input
from edgemeta.toolchain.train.checkpoint import RunIdentity
from edgemeta.toolchain.train.detector.loss import Boxes, DetectionLoss, anchors_of
from edgemeta.toolchain.train.detector.network import ANCHORS, STRIDES, task_of, tiny_yolo
from edgemeta.toolchain.train.detector.recipe import DetectorRecipe
from edgemeta.toolchain.train.loop import BatchLoss, Training, run_epochs
from edgemeta.toolchain.train.optimizer_step import OptimizerStep
from edgemeta.toolchain.train.student import nesterov, warmed_rates

_BATCH = 100


def train_tiny_yolo(
    recipe: DetectorRecipe, train: BoxedImages, measured: BoxedImages, folder: Path, reporter: Reporter
) -> TorchNetwork:
    """Train, or continue (checkpoint folder/network.pt); returns the averaged network in evaluation mode.

    measured: images on which epochs are measured. Raises DataError for images that do not fit, CheckpointError.
    """
    _check_images(recipe, train)
    torch.manual_seed(recipe.seed)
    task = task_of(train.labels, anchors_of(train.boxes, ANCHORS * len(STRIDES)))
    network = tiny_yolo(train.x.shape[1], recipe.network.width, task)
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    steps = len(train) // recipe.batch
    batches = _Batches(recipe.seed, train)
    loss_of = DetectionLoss(task)
    watched = _Watched(network, measured)

    def losses(epoch: int) -> BatchLoss:
        mirrored = generator(recipe.seed, STREAM_STUDENT, epoch).random(len(train)) < 0.5

        def loss(index: NDArray[np.int64]) -> Tensor:
            x, boxes = batches.batch(index, mirrored)
            with mixed_precision():
                outputs = network(x)
            return loss_of(outputs, boxes)

        return loss

    training = Training(
        stage="training",
        network=network,
        step=OptimizerStep(nesterov(network, recipe.lr, recipe.momentum, recipe.weight_decay)),
        epochs=recipe.epochs,
        images=len(train),
        batch=recipe.batch,
        order=lambda epoch: generator(recipe.seed, STREAM_ORDER, epoch).permutation(len(train)),
        rates=warmed_rates(recipe.lr, recipe.warmup_epochs, recipe.epochs, steps),
        losses=losses,
        measure=watched.precision,
        evaluate_every=recipe.evaluate_every,
        average=recipe.ema,
    )
    identity = RunIdentity(recipe.digest(), train.sha256())
    return run_epochs(training, folder / "network.pt", identity, reporter).network


def _check_images(recipe: DetectorRecipe, train: BoxedImages) -> None:
    height, width = train.x.shape[1:3]
    if height != width or width % max(STRIDES):
        raise DataError(f"the training images are {width}x{height} pixels, expected squares of a multiple of 32")
    if len(train) < recipe.batch:
        raise DataError(f"there are {len(train)} training images, expected at least one batch of {recipe.batch}")
    if len(train.boxes) < ANCHORS * len(STRIDES):
        raise DataError(f"the training images have {len(train.boxes)} boxes, expected at least one for each anchor")


class _Batches:
    """Batches of the training images, some of them mirrored."""

    def __init__(self, seed: int, train: BoxedImages) -> None:
        self._pixels = np.ascontiguousarray(train.x.transpose(0, 3, 1, 2))
        self._train = train

    def batch(self, index: NDArray[np.int64], mirrored: NDArray[np.bool_]) -> tuple[Tensor, Boxes]:
        """Network input [B, 3, S, S] and boxes of the images of these numbers."""
        pixels, flip = self._pixels[index], mirrored[index]
        pixels[flip] = pixels[flip][..., ::-1]
        part = self._train.take(index)
        corners, side = part.boxes.copy(), pixels.shape[-1]
        swapped = flip[part.images]
        corners[swapped, 0], corners[swapped, 2] = side - part.boxes[swapped, 2], side - part.boxes[swapped, 0]
        boxes = Boxes(*(torch.from_numpy(each) for each in (corners, part.classes, part.images)))
        return network_input(pixels), boxes


class _Watched:
    """The images on which epochs are measured."""

    def __init__(self, network: TorchNetwork, measured: BoxedImages) -> None:
        model = network.written()
        self._detector = FloatDetector(model, dict.fromkeys(model.labels, WATCHED_SCORE))
        self._measured = measured
        self._pixels = np.ascontiguousarray(measured.x.transpose(0, 3, 1, 2))

    def precision(self, network: nn.Module) -> float:
        """Mean average precision at an overlap of one half, in percent."""
        network.eval()
        found = []
        for first in range(0, len(self._pixels), _BATCH):
            with torch.no_grad(), mixed_precision():
                outputs = network(network_input(self._pixels[first : first + _BATCH]))
            maps = [each.float().permute(0, 2, 3, 1).numpy() for each in outputs]
            found += [self._detector.objects([each[i : i + 1] for each in maps]) for i in range(len(maps[0]))]
        return round(100 * mean_average_precision(found, self._measured).at_half, 3)
