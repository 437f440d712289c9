"""Distillation of the student: ResNet-8 learns the teachers' mean logits and the labels."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from edgemeta.toolchain.data import Dataset
from edgemeta.toolchain.errors import CheckpointError
from edgemeta.toolchain.progress import Reporter, Stage
from edgemeta.toolchain.recipe import Recipe, StudentRecipe
from edgemeta.toolchain.train.batches import accuracy_percent, network_input
from edgemeta.toolchain.train.checkpoint import load_checkpoint, save_checkpoint
from edgemeta.toolchain.train.lessons import Batch, Lessons
from edgemeta.toolchain.train.networks import ResNet8, Teacher


def cosine(position: float, warmup: float) -> float:
    """Factor on the learning rate at `position` 0..1: linear from 0 to 1 at `warmup`, then half a cosine to 0."""
    if position < warmup:
        return position / warmup
    return 0.5 * (1.0 + math.cos(math.pi * (position - warmup) / (1.0 - warmup)))


def distillation_loss(logits: Tensor, target: Tensor, labels: Tensor, temperature: float, hard_weight: float) -> Tensor:
    """(1 - h) T^2 KL(softmax(target / T) || softmax(logits / T)) + h CE(logits, labels), means over the images.

    logits, target: float [B, classes]; labels: int64 [P], of the first P images, the others have none. Hinton, Vinyals
    and Dean, "Distilling the Knowledge in a Neural Network", 2015.
    """
    soft = functional.kl_div(
        functional.log_softmax(logits / temperature, 1),
        functional.log_softmax(target / temperature, 1),
        reduction="batchmean",
        log_target=True,
    )
    hard = functional.cross_entropy(logits[: len(labels)], labels)
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
    """Move the averaged weights and batch statistics by (1 - decay) towards the network's."""
    with torch.no_grad():
        mine, theirs = average.state_dict(), network.state_dict()
        floats = [k for k, v in mine.items() if v.is_floating_point()]
        torch._foreach_lerp_([mine[k] for k in floats], [theirs[k] for k in floats], 1.0 - decay)


@dataclass(frozen=True)
class _Descent:
    """One descent of the learning rate: `epochs` epochs of `batches`, from `lr`, kept in the checkpoint `path`."""

    stage: Stage
    path: Path
    digest: str
    epochs: int
    lr: float
    warmup: float
    batches: Callable[[int], Iterator[Batch]]


def train_student(recipe: Recipe, lessons: Lessons, test: Dataset, folder: Path, reporter: Reporter) -> ResNet8:
    """Distil the student (or continue) and give the averaged network; its checkpoint is folder/student.pt."""
    part = recipe.student
    path, digest = _first_checkpoint(recipe, folder)
    torch.manual_seed(recipe.seed + 1)
    fresh = ResNet8(len(test.labels))
    warmup = part.warmup_epochs / part.epochs
    descent = _Descent("student", path, digest, part.epochs, part.lr, warmup, lessons.plain)
    return _descend(recipe, descent, fresh, lessons.steps, test, reporter)


def refine_student(
    recipe: Recipe,
    student: ResNet8,
    lessons: Lessons,
    teachers: Sequence[Teacher],
    test: Dataset,
    folder: Path,
    reporter: Reporter,
) -> ResNet8:
    """Refine the student (or continue) and give the averaged network; its checkpoint is folder/refined.pt."""
    part, before = recipe.refine, recipe.student.epochs
    path, digest = _last_checkpoint(recipe, folder)

    def batches(epoch: int) -> Iterator[Batch]:
        return lessons.blended(before + epoch, teachers)

    descent = _Descent("refine", path, digest, part.epochs, part.lr, 0.0, batches)
    return _descend(recipe, descent, student, lessons.steps, test, reporter)


def averaged_student(recipe: Recipe, folder: Path, classes: int) -> tuple[ResNet8, int]:
    """Give the averaged student of a run's last checkpoint and the epochs it has had. Raises CheckpointError."""
    first, first_digest = _first_checkpoint(recipe, folder)
    last, last_digest = _last_checkpoint(recipe, folder)
    before, state = recipe.student.epochs, load_checkpoint(last, last_digest)
    if state is None:
        before, state = 0, load_checkpoint(first, first_digest)
    if state is None:
        raise CheckpointError(f"{first}: does not exist, expected a run that has begun with its student")
    network = ResNet8(classes)
    network.load_state_dict(state["average"])
    network.eval()
    return network, before + int(state["epoch"])


def _first_checkpoint(recipe: Recipe, folder: Path) -> tuple[Path, str]:
    return folder / "student.pt", recipe.digest("teacher", "student")


def _last_checkpoint(recipe: Recipe, folder: Path) -> tuple[Path, str]:
    return folder / "refined.pt", recipe.digest("teacher", "student", "refine")


def _descend(
    recipe: Recipe, descent: _Descent, start: ResNet8, steps: int, test: Dataset, reporter: Reporter
) -> ResNet8:
    """Train from `start`, or go on from the checkpoint, and give the averaged network in evaluation mode."""
    part = recipe.student
    network, average = ResNet8(len(test.labels)), ResNet8(len(test.labels))
    for each in (network, average):
        each.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        each.load_state_dict(start.state_dict())
    average.eval()
    optimizer = _optimizer(network, part)
    done = 0
    state = load_checkpoint(descent.path, descent.digest)
    if state is not None:
        network.load_state_dict(state["network"])
        average.load_state_dict(state["average"])
        optimizer.load_state_dict(state["optimizer"])
        done = int(state["epoch"])
    reporter.restart_clock()
    for epoch in range(done, descent.epochs):
        network.train()
        total = 0.0
        for step, batch in enumerate(descent.batches(epoch)):
            taken = epoch * steps + step
            for group in optimizer.param_groups:
                group["lr"] = descent.lr * cosine(taken / (descent.epochs * steps), descent.warmup)
            with torch.autocast("cpu", torch.bfloat16):
                output = network(network_input(batch.pixels)).float()
            loss = distillation_loss(output, batch.target, batch.labels, part.temperature, part.hard_weight)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            # a short memory at first, so that the average is not held back by its start
            _average(average, network, min(part.ema, (1.0 + taken) / (10.0 + taken)))
            total += loss.item()
            if (step + 1) % 50 == 0 and step + 1 < steps:
                reporter.report(descent.stage, epoch + 1, descent.epochs, step + 1, steps, total / (step + 1))
        save_checkpoint(
            descent.path,
            {
                "digest": descent.digest,
                "network": network.state_dict(),
                "average": average.state_dict(),
                "optimizer": optimizer.state_dict(),
                "epoch": epoch + 1,
            },
        )
        measured: tuple[float | None, float | None] = (None, None)
        if (epoch + 1) % part.evaluate_every == 0 or epoch + 1 in (1, descent.epochs):
            measured = accuracy_percent(average, test.x, test.y), accuracy_percent(network, test.x, test.y)
        reporter.report(descent.stage, epoch + 1, descent.epochs, steps, steps, total / steps, *measured)
    return average
