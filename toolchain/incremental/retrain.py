"""The retraining: in each step more weights are frozen, and the rest is trained on."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from edgemeta.toolchain.incremental.freezing import release_probability, temperature
from edgemeta.toolchain.incremental.network import FrozenStep, PartlyFrozen
from edgemeta.toolchain.incremental.settings import IncrementalSettings
from edgemeta.toolchain.progress import Reporter
from edgemeta.toolchain.train.augment import (
    STREAM_FREEZE,
    STREAM_ORDER,
    STREAM_RELEASE,
    STREAM_STUDENT,
    draw_view,
    generator,
)
from edgemeta.toolchain.train.batches import accuracy_percent, mixed_precision, network_input
from edgemeta.toolchain.train.checkpoint import RunIdentity
from edgemeta.toolchain.train.loop import BatchLoss, Trained, Training, run_epochs
from edgemeta.toolchain.train.student import DistillationData, cosine, distillation_loss, nesterov

NetworkLoss: TypeAlias = Callable[[PartlyFrozen, NDArray[np.int64]], Tensor]
"""Loss of a network for the numbers of a batch's images (int64 [batch]), a scalar with a gradient."""


@dataclass(frozen=True)
class Goal:
    """What a retraining minimizes.

    images: their number; batch: images of a step. losses: called at the start of an epoch with its number, draws the
    views. measure: percent of what the network should give that it gives, on the images that are held out.
    """

    images: int
    batch: int
    losses: Callable[[int], NetworkLoss]
    measure: Callable[[nn.Module], float]


def distillation(inputs: DistillationData, settings: IncrementalSettings) -> Goal:
    """The float network's logits and the labels; measured by the labels."""
    bank = inputs.bank
    classes = len(inputs.train.labels)
    labels = functional.one_hot(torch.from_numpy(inputs.train.y.astype(np.int64)), classes).float()

    def losses(epoch: int) -> NetworkLoss:
        view = draw_view(settings.seed, STREAM_STUDENT, epoch, bank.images, settings.pad, settings.alternate_share)

        def loss(network: PartlyFrozen, index: NDArray[np.int64]) -> Tensor:
            x = network_input(bank.cut(view, index))
            with mixed_precision():
                output = network(x)
            return distillation_loss(
                output.float(), inputs.target(index, x), labels[index], settings.softness, 1.0 - settings.soft
            )

        return loss

    def measure(candidate: nn.Module) -> float:
        return accuracy_percent(candidate, inputs.measured.x, inputs.measured.y)

    return Goal(bank.images, settings.batch, losses, measure)


def retrain(
    network: PartlyFrozen,
    settings: IncrementalSettings,
    goal: Goal,
    checkpoint: Path,
    identity: RunIdentity,
    reporter: Reporter,
) -> Trained[PartlyFrozen]:
    """All steps, continued from the checkpoint if there is one; the network of the last epoch.

    Epoch e belongs to step e // epochs. At its start a step freezes its share; then, with annealing, some frozen
    weights are released for one epoch. In the last epoch of a step nothing is released, so at the end the statistics of
    the batch norms are those of the final weights. All random numbers depend only on seed, purpose and epoch. Raises
    CheckpointError.
    """
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    seed, steps = settings.seed, goal.images // goal.batch

    def rates(epoch: int, step: int) -> tuple[float, float]:
        place = (epoch % settings.epochs + step / steps) / settings.epochs
        rate = settings.lr * cosine(place, 0.0)
        return rate, rate

    def begin(epoch: int) -> BatchLoss:
        number, place = divmod(epoch, settings.epochs)
        if place == 0:
            network.freeze(settings.shares[number], settings.rule, generator(seed, STREAM_FREEZE, number))
        heat = temperature(settings.heat, place, settings.epochs)
        network.release(release_probability(heat), generator(seed, STREAM_RELEASE, epoch))
        loss = goal.losses(epoch)
        return lambda index: loss(network, index)

    training = Training(
        stage="retraining",
        network=network,
        step=FrozenStep(nesterov(network, settings.lr, settings.momentum, settings.weight_decay), network),
        epochs=settings.all_epochs,
        images=goal.images,
        batch=goal.batch,
        order=lambda epoch: generator(seed, STREAM_ORDER, 2_000_000 + epoch).permutation(goal.images),
        rates=rates,
        losses=begin,
        after_epoch=network.refreeze,
        measure=goal.measure,
    )
    return run_epochs(training, checkpoint, identity, reporter)
