"""The retraining: in each step more weights are frozen, and the rest is trained on."""

from pathlib import Path

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


def retrain(
    network: PartlyFrozen,
    settings: IncrementalSettings,
    inputs: DistillationData,
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
    bank, seed = inputs.bank, settings.seed
    classes = len(inputs.train.labels)
    labels = functional.one_hot(torch.from_numpy(inputs.train.y.astype(np.int64)), classes).float()
    steps = bank.images // settings.batch

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
        view = draw_view(seed, STREAM_STUDENT, epoch, bank.images, settings.pad, settings.alternate_share)

        def loss(index: NDArray[np.int64]) -> Tensor:
            x = network_input(bank.cut(view, index))
            with mixed_precision():
                output = network(x)
            return distillation_loss(
                output.float(), inputs.target(index, x), labels[index], settings.softness, 1.0 - settings.soft
            )

        return loss

    def measure(candidate: nn.Module) -> float:
        return accuracy_percent(candidate, inputs.measured.x, inputs.measured.y)

    training = Training(
        stage="retraining",
        network=network,
        step=FrozenStep(nesterov(network, settings.lr, settings.momentum, settings.weight_decay), network),
        epochs=settings.all_epochs,
        images=bank.images,
        batch=settings.batch,
        order=lambda epoch: generator(seed, STREAM_ORDER, 2_000_000 + epoch).permutation(bank.images),
        rates=rates,
        losses=begin,
        after_epoch=network.refreeze,
        measure=measure,
    )
    return run_epochs(training, checkpoint, identity, reporter)
