"""Distillation of the student: ResNet-8 is trained on the teachers' mean logits and the labels."""

import math
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from edgemeta.toolchain.data.dataset import Dataset
from edgemeta.toolchain.progress import Reporter
from edgemeta.toolchain.train.augment import STREAM_ORDER, STREAM_STUDENT, ImageBank, draw_view, generator
from edgemeta.toolchain.train.batches import accuracy_percent, mixed_precision, network_input
from edgemeta.toolchain.train.chain import Chain
from edgemeta.toolchain.train.checkpoint import RunIdentity
from edgemeta.toolchain.train.designs import Design
from edgemeta.toolchain.train.loop import BatchLoss, Training, run_epochs
from edgemeta.toolchain.train.networks import build
from edgemeta.toolchain.train.recipe import Recipe


def cosine(position: float, warmup: float) -> float:
    """Factor on the learning rate at `position` 0..1: linear from 0 to 1 at `warmup`, then half a cosine to 0."""
    if position < warmup:
        return position / warmup
    return 0.5 * (1.0 + math.cos(math.pi * (position - warmup) / (1.0 - warmup)))


def distillation_loss(logits: Tensor, target: Tensor, labels: Tensor, temperature: float, hard_weight: float) -> Tensor:
    """(1 - h) T^2 KL(softmax(target / T) || softmax(logits / T)) + h CE(logits, labels), batch mean.

    logits, target: float [B, classes]; labels: int64 [B]. Hinton, Vinyals and Dean, "Distilling the Knowledge in a
    Neural Network", 2015.
    """
    soft = functional.kl_div(
        functional.log_softmax(logits / temperature, 1),
        functional.log_softmax(target / temperature, 1),
        reduction="batchmean",
        log_target=True,
    )
    hard = functional.cross_entropy(logits, labels)
    return (1.0 - hard_weight) * temperature**2 * soft + hard_weight * hard


def nesterov(network: nn.Module, lr: float, momentum: float, weight_decay: float) -> torch.optim.SGD:
    """SGD with Nesterov momentum; convolutions and dense weights decay, shifts and factors do not."""
    weights = [p for p in network.parameters() if p.ndim > 1]
    others = [p for p in network.parameters() if p.ndim <= 1]
    groups = [{"params": weights, "weight_decay": weight_decay}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.SGD(groups, lr=lr, momentum=momentum, nesterov=True)


def train_student(
    recipe: Recipe,
    bank: ImageBank,
    targets: NDArray[np.float32],
    train: Dataset,
    test: Dataset,
    folder: Path,
    data: str,
    reporter: Reporter,
) -> Chain:
    """Distil the student (or continue) and return the averaged network; checkpoint folder/student.pt.

    targets: the teachers' mean logits, float32 [N, classes]. data: digest of the training data.
    """
    part = recipe.student
    torch.manual_seed(recipe.seed + 1)
    network = build(Design(len(train.labels)))
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    labels, soft = torch.from_numpy(train.y.astype(np.int64)), torch.from_numpy(targets)
    steps = bank.images // part.batch
    warmup = part.warmup_epochs / part.epochs

    def rates(epoch: int, step: int) -> tuple[float, float]:
        rate = part.lr * cosine((epoch * steps + step) / (part.epochs * steps), warmup)
        return rate, rate

    def losses(epoch: int) -> BatchLoss:
        view = draw_view(recipe.seed, STREAM_STUDENT, epoch, bank.images, part.pad, recipe.alternate_share)

        def loss(index: NDArray[np.int64]) -> Tensor:
            with mixed_precision():
                output = network(network_input(bank.cut(view, index)))
            return distillation_loss(output.float(), soft[index], labels[index], part.temperature, part.hard_weight)

        return loss

    training = Training(
        stage="student",
        network=network,
        optimizer=nesterov(network, part.lr, part.momentum, part.weight_decay),
        epochs=part.epochs,
        images=bank.images,
        batch=part.batch,
        order=lambda epoch: generator(recipe.seed, STREAM_ORDER, 1_000_000 + epoch).permutation(bank.images),
        rates=rates,
        losses=losses,
        measure=lambda candidate: accuracy_percent(candidate, test.x, test.y),
        evaluate_every=part.evaluate_every,
        average=part.ema,
    )
    identity = RunIdentity(recipe.digest("teacher", "student"), data)
    return run_epochs(training, folder / "student.pt", identity, reporter).network
