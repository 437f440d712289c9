"""The recipe for own pictures: a small data set, no teachers."""

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from edgemeta.toolchain.data.dataset import Dataset
from edgemeta.toolchain.progress import Reporter
from edgemeta.toolchain.torch_network import TorchNetwork
from edgemeta.toolchain.train.augment import STREAM_ORDER, STREAM_PICTURES, generator
from edgemeta.toolchain.train.batches import accuracy_percent, mixed_precision
from edgemeta.toolchain.train.checkpoint import RunIdentity
from edgemeta.toolchain.train.designs import MIN_SIZE, Design
from edgemeta.toolchain.train.loop import BatchLoss, Trained, Training, run_epochs
from edgemeta.toolchain.train.optimizer_step import OptimizerStep, parameter_groups
from edgemeta.toolchain.train.picture_views import ViewSettings, blend, random_views
from edgemeta.toolchain.train.student import warmed_rates


@dataclass(frozen=True)
class PicturesRecipe:
    """Training by labels with random views, blends and smoothed labels.

    margin: pictures are read at this factor of the network's size, so that a crop need not be enlarged. lr: peak
    learning rate of AdamW, reached linearly after `warmup_epochs`, then cosine to zero. smoothing: share of the label
    spread evenly over all classes. blended: share of batches that are blended, with `blend_strength` (`blend`).
    first_size, full_size_from: the views begin at this share of the network's size, grow evenly, and have all of it
    after this share of the epochs: early epochs need little detail (Tan and Le 2021, "EfficientNetV2") and cost less.
    ema: decay per step of the moving average of the weights, which is measured and exported. validation: share of each
    class that is held out to choose the best epoch.
    """

    epochs: int = 100
    batch: int = 64
    margin: float = 4 / 3
    lr: float = 3e-3
    warmup_epochs: float = 3.0
    weight_decay: float = 0.05
    smoothing: float = 0.1
    blended: float = 0.7
    blend_strength: float = 0.8
    first_size: float = 0.5
    full_size_from: float = 0.75
    ema: float = 0.997
    seed: int = 1
    validation: float = 0.1
    views: ViewSettings = field(default_factory=ViewSettings)

    def view_size(self, epoch: int, size: int) -> int:
        """Side of the views of an epoch (from 0) for a network of this size; a multiple of 8 until it is all of it."""
        done = epoch / (self.full_size_from * self.epochs)
        if done >= 1.0:
            return size
        side = int(size * (self.first_size + (1.0 - self.first_size) * done))
        return min(size, max(MIN_SIZE, side // 8 * 8))

    def digest(self, design: Design, start: str | None) -> str:
        """SHA-256 (hex) of everything but the data that decides a run's steps; start: digest of the first weights."""
        whole = {**asdict(self), "network": asdict(design), "start": start}
        return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()


def train_on_pictures(
    recipe: PicturesRecipe,
    network: TorchNetwork,
    large: Dataset,
    validation: Dataset,
    checkpoint: Path,
    identity: RunIdentity,
    reporter: Reporter,
) -> Trained[TorchNetwork]:
    """Train (or continue) and return the epoch that is best on `validation`.

    network: with its first weights. large: training pictures, square and at least of the network's size. validation:
    pictures of the network's size.
    """
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    images, classes = len(large), len(large.labels)
    batch = min(recipe.batch, images)
    steps = images // batch
    even = recipe.smoothing / classes
    targets = functional.one_hot(torch.from_numpy(large.y.astype(np.int64)), classes) * (1.0 - recipe.smoothing) + even

    def losses(epoch: int) -> BatchLoss:
        rng, side = generator(recipe.seed, STREAM_PICTURES, epoch), recipe.view_size(epoch, network.input_size[0])

        def loss(index: NDArray[np.int64]) -> Tensor:
            x, target = random_views(large.x[index], side, recipe.views, rng), targets[index]
            if rng.random() < recipe.blended:
                x, target = blend(x, target, recipe.blend_strength, rng)
            with mixed_precision():
                logits = network(x)
            return functional.cross_entropy(logits.float(), target)

        return loss

    training = Training(
        stage="training",
        network=network,
        step=OptimizerStep(torch.optim.AdamW(parameter_groups(network, recipe.weight_decay), lr=recipe.lr)),
        epochs=recipe.epochs,
        images=images,
        batch=batch,
        order=lambda epoch: generator(recipe.seed, STREAM_ORDER, epoch).permutation(images),
        rates=warmed_rates(recipe.lr, recipe.warmup_epochs, recipe.epochs, steps),
        losses=losses,
        measure=lambda candidate: accuracy_percent(candidate, validation.x, validation.y, 100),
        average=recipe.ema,
        keep_best=True,
        report_every=10,
    )
    return run_epochs(training, checkpoint, identity, reporter)
