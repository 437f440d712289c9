"""Distillation of the student: ResNet-8 learns the teachers' mean logits and the labels."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from edgemeta.toolchain.data import Dataset
from edgemeta.toolchain.progress import Reporter, Stage
from edgemeta.toolchain.recipe import Recipe, StudentRecipe
from edgemeta.toolchain.train.batches import accuracy_percent, network_input
from edgemeta.toolchain.train.checkpoint import load_checkpoint, save_checkpoint
from edgemeta.toolchain.train.lessons import Lessons
from edgemeta.toolchain.train.networks import ResNet8


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
    """Move the averaged weights and batch statistics by (1 - decay) towards the network's."""
    with torch.no_grad():
        mine, theirs = average.state_dict(), network.state_dict()
        floats = [k for k, v in mine.items() if v.is_floating_point()]
        torch._foreach_lerp_([mine[k] for k in floats], [theirs[k] for k in floats], 1.0 - decay)


@dataclass(frozen=True)
class _Path:
    """One path through the weights, kept in the checkpoint `path`.

    first: number of the lessons' epoch that it begins with. before, total: epochs of the stage before this path's, and
    of the whole stage. rate: learning rate at position 0..1. decay: of the average of the weights, at a step.
    """

    stage: Stage
    path: Path
    digest: str
    first: int
    epochs: int
    before: int
    total: int
    rate: Callable[[float], float]
    decay: Callable[[int], float]


def train_student(recipe: Recipe, lessons: Lessons, test: Dataset, folder: Path, reporter: Reporter) -> ResNet8:
    """Distil the student (or continue) and give the averaged network; its checkpoint is folder/student.pt."""
    part = recipe.student
    torch.manual_seed(recipe.seed + 1)

    def rate(position: float) -> float:
        return part.lr * cosine(position, part.warmup_epochs / part.epochs)

    def decay(step: int) -> float:  # a short memory at first, so that the average is not held back by its start
        return min(part.ema, (1.0 + step) / (10.0 + step))

    digest = recipe.digest("teacher", "student")
    path = _Path("student", folder / "student.pt", digest, 0, part.epochs, 0, part.epochs, rate, decay)
    return _follow(recipe, path, ResNet8(len(test.labels)), lessons, test, reporter)


def refine_student(
    recipe: Recipe, student: ResNet8, lessons: Lessons, test: Dataset, folder: Path, reporter: Reporter
) -> ResNet8:
    """Give the mean network of all paths from the student (or continue them); checkpoints folder/refined-<k>.pt."""
    ends = [refine_path(recipe, k, student, lessons, test, folder, reporter) for k in range(recipe.refine.count)]
    mean = ResNet8(len(test.labels))
    states = [end.state_dict() for end in ends]
    mean.load_state_dict({k: torch.stack([s[k].double() for s in states]).mean(0) for k in states[0]})
    mean.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    _measure_norms(mean, lessons)
    return mean


def refine_path(
    recipe: Recipe, number: int, student: ResNet8, lessons: Lessons, test: Dataset, folder: Path, reporter: Reporter
) -> ResNet8:
    """Follow path `number` from the student and give the mean of the weights on it."""
    part = recipe.refine
    digest = recipe.digest("teacher", "student", "refine")
    before, total = number * part.epochs, part.count * part.epochs
    first = recipe.student.epochs + before

    def rate(_position: float) -> float:
        return part.lr

    def decay(step: int) -> float:  # the plain mean of all steps
        return step / (step + 1.0)

    path = _Path("refine", folder / f"refined-{number}.pt", digest, first, part.epochs, before, total, rate, decay)
    return _follow(recipe, path, student, lessons, test, reporter)


def _measure_norms(network: ResNet8, lessons: Lessons) -> None:
    """Set the statistics of the batch norms to those of one epoch: a mean of weights has others than its parts."""
    norms = [m for m in network.modules() if isinstance(m, torch.nn.BatchNorm2d)]
    usual = norms[0].momentum
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # the plain mean of all batches
    network.train()
    with torch.no_grad():
        for batch in lessons.epoch(0):
            network(network_input(batch.pixels))
    for norm in norms:
        norm.momentum = usual
    network.eval()


def _follow(
    recipe: Recipe, path: _Path, start: ResNet8, lessons: Lessons, test: Dataset, reporter: Reporter
) -> ResNet8:
    """Train from `start`, or go on from the checkpoint, and give the averaged network in evaluation mode."""
    part = recipe.student
    network, average = ResNet8(len(test.labels)), ResNet8(len(test.labels))
    for each in (network, average):
        each.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        each.load_state_dict(start.state_dict())
    average.eval()
    optimizer = _optimizer(network, part)
    done, steps = 0, lessons.steps
    state = load_checkpoint(path.path, path.digest)
    if state is not None:
        network.load_state_dict(state["network"])
        average.load_state_dict(state["average"])
        optimizer.load_state_dict(state["optimizer"])
        done = int(state["epoch"])
    reporter.restart_clock()
    for epoch in range(done, path.epochs):
        network.train()
        total = 0.0
        for step, batch in enumerate(lessons.epoch(path.first + epoch)):
            taken = epoch * steps + step
            for group in optimizer.param_groups:
                group["lr"] = path.rate(taken / (path.epochs * steps))
            with torch.autocast("cpu", torch.bfloat16):
                output = network(network_input(batch.pixels)).float()
            loss = distillation_loss(output, batch.target, batch.labels, part.temperature, part.hard_weight)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            _average(average, network, path.decay(taken))
            total += loss.item()
            if (step + 1) % 50 == 0 and step + 1 < steps:
                reporter.report(path.stage, path.before + epoch + 1, path.total, step + 1, steps, total / (step + 1))
        save_checkpoint(
            path.path,
            {
                "digest": path.digest,
                "network": network.state_dict(),
                "average": average.state_dict(),
                "optimizer": optimizer.state_dict(),
                "epoch": epoch + 1,
            },
        )
        measured: tuple[float | None, float | None] = (None, None)
        if (epoch + 1) % part.evaluate_every == 0 or epoch + 1 in (1, path.epochs):
            measured = accuracy_percent(average, test.x, test.y), accuracy_percent(network, test.x, test.y)
        reporter.report(path.stage, path.before + epoch + 1, path.total, steps, steps, total / steps, *measured)
    return average
