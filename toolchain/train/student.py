"""Distillation of the student: ResNet-8 is trained on the teachers' mean logits and the labels."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from edgemeta.toolchain.data.dataset import Dataset
from edgemeta.toolchain.progress import Reporter
from edgemeta.toolchain.train.augment import STREAM_ORDER, STREAM_STUDENT, ImageBank, draw_view, generator
from edgemeta.toolchain.train.batches import accuracy_percent, mixed_precision, network_input
from edgemeta.toolchain.train.checkpoint import load_checkpoint, save_checkpoint
from edgemeta.toolchain.train.networks import ResNet8
from edgemeta.toolchain.train.recipe import Recipe, StudentRecipe


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


def _optimizer(network: ResNet8, recipe: StudentRecipe) -> torch.optim.SGD:
    weights = [p for p in network.parameters() if p.ndim > 1]
    others = [p for p in network.parameters() if p.ndim <= 1]
    return torch.optim.SGD(
        [
            {"params": weights, "weight_decay": recipe.weight_decay},
            {"params": others, "weight_decay": 0.0},
        ],
        lr=recipe.lr,
        momentum=recipe.momentum,
        nesterov=True,
    )


def _average(average: ResNet8, network: ResNet8, decay: float) -> None:
    """Update the averaged weights and batch statistics by (1 - decay) towards those of the network."""
    with torch.no_grad():
        mine, theirs = average.state_dict(), network.state_dict()
        floats = [k for k, v in mine.items() if v.is_floating_point()]
        torch._foreach_lerp_([mine[k] for k in floats], [theirs[k] for k in floats], 1.0 - decay)


def train_student(
    recipe: Recipe,
    bank: ImageBank,
    targets: NDArray[np.float32],
    train: Dataset,
    test: Dataset,
    folder: Path,
    reporter: Reporter,
) -> ResNet8:
    """Distil the student (or continue) and return the averaged network; checkpoint folder/student.pt.

    targets: the teachers' mean logits, float32 [N, classes].
    """
    part = recipe.student
    path, digest = folder / "student.pt", _digest(recipe)
    torch.manual_seed(recipe.seed + 1)
    network, average = ResNet8(len(train.labels)), ResNet8(len(train.labels))
    for each in (network, average):
        each.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    average.load_state_dict(network.state_dict())
    average.eval()
    optimizer = _optimizer(network, part)
    done = 0
    state = load_checkpoint(path, digest)
    if state is not None:
        network.load_state_dict(state["network"])
        average.load_state_dict(state["average"])
        optimizer.load_state_dict(state["optimizer"])
        done = int(state["epoch"])
    labels, soft = torch.from_numpy(train.y.astype(np.int64)), torch.from_numpy(targets)
    steps = bank.images // part.batch
    warmup = part.warmup_epochs / part.epochs
    reporter.restart_clock()
    for epoch in range(done, part.epochs):
        network.train()
        order = generator(recipe.seed, STREAM_ORDER, 1_000_000 + epoch).permutation(bank.images)
        view = draw_view(recipe.seed, STREAM_STUDENT, epoch, bank.images, part.pad, recipe.alternate_share)
        total = 0.0
        for step in range(steps):
            rate = cosine((epoch * steps + step) / (part.epochs * steps), warmup)
            for group in optimizer.param_groups:
                group["lr"] = part.lr * rate
            index = order[step * part.batch : (step + 1) * part.batch]
            with mixed_precision():
                output = network(network_input(bank.cut(view, index)))
            loss = distillation_loss(output.float(), soft[index], labels[index], part.temperature, part.hard_weight)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            # a shorter average at first, so that the random initial weights are forgotten quickly
            taken = epoch * steps + step
            _average(average, network, min(part.ema, (1.0 + taken) / (10.0 + taken)))
            total += loss.item()
            if (step + 1) % 50 == 0 and step + 1 < steps:
                reporter.report("student", epoch + 1, part.epochs, step + 1, steps, total / (step + 1))
        _save(path, digest, network, average, optimizer, epoch + 1)
        measured: tuple[float | None, float | None] = (None, None)
        if (epoch + 1) % part.evaluate_every == 0 or epoch + 1 in (1, part.epochs):
            measured = (
                accuracy_percent(average, test.x, test.y),
                accuracy_percent(network, test.x, test.y),
            )
        reporter.report("student", epoch + 1, part.epochs, steps, steps, total / steps, *measured)
    average.eval()
    return average


def _digest(recipe: Recipe) -> str:
    return recipe.digest("teacher", "student")


def _save(
    path: Path,
    digest: str,
    network: ResNet8,
    average: ResNet8,
    optimizer: torch.optim.Optimizer,
    epoch: int,
) -> None:
    state: dict[str, Any] = {
        "digest": digest,
        "network": network.state_dict(),
        "average": average.state_dict(),
        "optimizer": optimizer.state_dict(),
        "epoch": epoch,
    }
    save_checkpoint(path, state)
