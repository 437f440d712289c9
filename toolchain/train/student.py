"""Distillation of the student: ResNet-8 is trained on the teachers' mean logits and the labels."""

import math
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from edgemeta.toolchain.data.dataset import Dataset
from edgemeta.toolchain.progress import Reporter, TrainingStage
from edgemeta.toolchain.torch_network import TorchNetwork
from edgemeta.toolchain.train.augment import STREAM_BLEND, STREAM_ORDER, STREAM_STUDENT, ImageBank, draw_view, generator
from edgemeta.toolchain.train.batches import accuracy_percent, mixed_precision, network_input
from edgemeta.toolchain.train.checkpoint import RunIdentity
from edgemeta.toolchain.train.loop import BatchLoss, Training, run_epochs
from edgemeta.toolchain.train.networks import build
from edgemeta.toolchain.train.optimizer_step import OptimizerStep, parameter_groups
from edgemeta.toolchain.train.picture_views import blend
from edgemeta.toolchain.train.recipe import Recipe, StudentRecipe
from edgemeta.toolchain.train.targets import Target

_STATISTICS_BATCH = 500
"""Images of a batch when the statistics of a mean of networks are measured."""

N = TypeVar("N", bound=nn.Module)


@dataclass(frozen=True)
class DistillationData:
    """What a student learns from.

    bank: views of the training images `train`. target: the teachers' logits of them. measured: the images on which
    epochs are measured.
    """

    train: Dataset
    bank: ImageBank
    target: Target
    measured: Dataset


def cosine(position: float, warmup: float) -> float:
    """Factor on the learning rate at `position` 0..1: linear from 0 to 1 at `warmup`, then half a cosine to 0."""
    if position < warmup:
        return position / warmup
    return 0.5 * (1.0 + math.cos(math.pi * (position - warmup) / (1.0 - warmup)))


def warmed_rates(lr: float, warmup_epochs: float, epochs: int, steps: int) -> Callable[[int, int], tuple[float, float]]:
    """Rates of both parameter groups in an epoch's step: `lr` times `cosine`, whose warm-up is half of all at most."""
    warmup = min(warmup_epochs / epochs, 0.5)
    return lambda epoch, step: (lr * cosine((epoch * steps + step) / (epochs * steps), warmup),) * 2


def distillation_loss(logits: Tensor, target: Tensor, labels: Tensor, temperature: float, hard_weight: float) -> Tensor:
    """(1 - h) T^2 KL(softmax(target / T) || softmax(logits / T)) + h CE(logits, labels), batch mean.

    logits, target, labels: float [B, classes], each row of labels adding up to 1; or labels: int64 [B], numbers of
    classes. Hinton, Vinyals and Dean, "Distilling the Knowledge in a Neural Network", 2015.
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
    return torch.optim.SGD(parameter_groups(network, weight_decay), lr=lr, momentum=momentum, nesterov=True)


def train_student(
    recipe: Recipe, inputs: DistillationData, folder: Path, data: str, reporter: Reporter
) -> TorchNetwork:
    """Distil the student (or continue) and return the averaged network; checkpoint folder/student.pt.

    data: digest of the training data.
    """
    torch.manual_seed(recipe.seed + 1)
    network = build(recipe.design(len(inputs.train.labels)))
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    training = _distillation("student", network, recipe.student, recipe.seed, recipe.alternate_share, inputs)
    identity = RunIdentity(recipe.digest("teacher", "student"), data)
    return run_epochs(training, folder / "student.pt", identity, reporter).network


def continue_student(
    recipe: Recipe, student: TorchNetwork, inputs: DistillationData, folder: Path, data: str, reporter: Reporter
) -> TorchNetwork:
    """Train the finished student on, as often as the recipe says, and return the mean of the results.

    Continuation k, counted from 0, has the recipe's seed plus 1000 (k + 1); its checkpoint is folder/continuation-k.pt.
    """
    part = recipe.continuation
    if part.count == 0:
        return student
    settings = replace(recipe.student, epochs=part.epochs, lr=part.lr, warmup_epochs=part.warmup_epochs)
    identity = RunIdentity(recipe.digest("teacher", "student", "continuation"), data)
    results = []
    for number in range(part.count):
        seed = recipe.seed + 1000 * (number + 1)
        network = deepcopy(student)
        training = _distillation("continuation", network, settings, seed, recipe.alternate_share, inputs)
        training = replace(training, first_epoch=number * part.epochs, all_epochs=part.count * part.epochs)
        results.append(run_epochs(training, folder / f"continuation-{number}.pt", identity, reporter).network)
    mean = mean_network(results)
    view = draw_view(recipe.seed, STREAM_STUDENT, 0, inputs.bank.images, inputs.bank.pad, recipe.alternate_share)
    starts = range(0, inputs.bank.images, _STATISTICS_BATCH)
    refresh_statistics(mean, (network_input(inputs.bank.cut(view, _numbers(s, inputs.bank.images))) for s in starts))
    return mean


def _numbers(start: int, images: int) -> NDArray[np.int64]:
    return np.arange(start, min(start + _STATISTICS_BATCH, images))


def _distillation(
    stage: TrainingStage,
    network: TorchNetwork,
    part: StudentRecipe,
    seed: int,
    alternate_share: float,
    inputs: DistillationData,
) -> Training[TorchNetwork]:
    bank = inputs.bank
    classes = len(inputs.train.labels)
    labels = functional.one_hot(torch.from_numpy(inputs.train.y.astype(np.int64)), classes).float()
    steps = bank.images // part.batch
    blended = round(part.blended * part.batch)

    def rates(epoch: int, step: int) -> tuple[float, float]:
        rate = part.lr * cosine((epoch * steps + step) / (part.epochs * steps), part.warmup_epochs / part.epochs)
        return rate, rate

    def losses(epoch: int) -> BatchLoss:
        view = draw_view(seed, STREAM_STUDENT, epoch, bank.images, part.pad, alternate_share)
        rng = generator(seed, STREAM_BLEND, epoch)

        def loss(index: NDArray[np.int64]) -> Tensor:
            x, hard = network_input(bank.cut(view, index)), labels[index]
            if blended > 1:
                x[:blended], hard[:blended] = blend(x[:blended], hard[:blended], part.blend_strength, rng)
            with mixed_precision():
                output = network(x)
            return distillation_loss(output.float(), inputs.target(index, x), hard, part.temperature, part.hard_weight)

        return loss

    return Training(
        stage=stage,
        network=network,
        step=OptimizerStep(nesterov(network, part.lr, part.momentum, part.weight_decay)),
        epochs=part.epochs,
        images=bank.images,
        batch=part.batch,
        order=lambda epoch: generator(seed, STREAM_ORDER, 1_000_000 + epoch).permutation(bank.images),
        rates=rates,
        losses=losses,
        measure=lambda candidate: accuracy_percent(candidate, inputs.measured.x, inputs.measured.y),
        evaluate_every=part.evaluate_every,
        average=part.ema,
    )


def mean_network(networks: Sequence[N]) -> N:
    """A network whose weights are the means of theirs, in evaluation mode.

    They must have begun at the same weights, else the mean of two good networks is a bad one. The statistics of batch
    norms do not follow from those of the parts: `refresh_statistics`.
    """
    mean = deepcopy(networks[0]).eval()
    states = [network.state_dict() for network in networks]
    with torch.no_grad():
        for name, value in mean.state_dict().items():
            if value.is_floating_point():
                value.copy_(torch.stack([state[name] for state in states]).mean(0))
    return mean


def refresh_statistics(network: nn.Module, batches: Iterable[Tensor]) -> None:
    """Measure mean and variance of every batch norm anew: the mean over these batches [n, C, H, W] of network input."""
    norms = [module for module in network.modules() if isinstance(module, nn.BatchNorm2d)]
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # the plain mean over all batches
    network.train()
    with torch.no_grad():
        for batch in batches:
            network(batch)
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
    network.eval()
