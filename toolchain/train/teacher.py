"""Training of the teachers, and the student's targets computed by them."""

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from edgemeta.toolchain.data.dataset import Dataset
from edgemeta.toolchain.errors import CheckpointError
from edgemeta.toolchain.progress import Reporter
from edgemeta.toolchain.train.augment import STREAM_ORDER, STREAM_TEACHER, STREAM_VIEWS, ImageBank, draw_view, generator
from edgemeta.toolchain.train.batches import accuracy_percent, logits_of, mixed_precision, network_input
from edgemeta.toolchain.train.checkpoint import load_checkpoint, save_checkpoint
from edgemeta.toolchain.train.networks import Teacher
from edgemeta.toolchain.train.recipe import Recipe, TeacherRecipe


def triangle(position: float, warmup: float, start: float, end: float) -> float:
    """Factor on the learning rate at `position` 0..1: linear from `start` up to 1 at `warmup`, then down to `end`."""
    if position < warmup:
        return start + (1.0 - start) * position / warmup
    return 1.0 + (end - 1.0) * (position - warmup) / (1.0 - warmup)


def _optimizer(network: Teacher, recipe: TeacherRecipe) -> torch.optim.SGD:
    weights: list[nn.Parameter] = []
    shifts: list[nn.Parameter] = []
    for name, parameter in network.named_parameters():
        if parameter.requires_grad:
            small = parameter.ndim == 1 and not name.startswith("whitening")
            (shifts if small else weights).append(parameter)
    return torch.optim.SGD(
        [
            {"params": weights, "lr": recipe.lr, "weight_decay": recipe.weight_decay},
            {
                "params": shifts,
                "lr": recipe.lr * recipe.bias_lr,
                "weight_decay": recipe.weight_decay / max(recipe.bias_lr, 1.0),
            },
        ],
        lr=recipe.lr,
        momentum=recipe.momentum,
        nesterov=True,
    )


def train_teacher(
    recipe: Recipe, number: int, bank: ImageBank, train: Dataset, test: Dataset, folder: Path, reporter: Reporter
) -> Teacher:
    """Train (or continue, or just load) teacher `number`; its checkpoint is folder/teacher-<number>.pt."""
    part = recipe.teacher
    seed = recipe.seed + 100 * number
    path, digest = folder / f"teacher-{number}.pt", recipe.digest("teacher")
    torch.manual_seed(seed)
    network = Teacher(part.widths, len(train.labels))
    network.whiten(network_input(np.ascontiguousarray(train.x[:5000].transpose(0, 3, 1, 2))))
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer = _optimizer(network, part)
    done = 0
    state = load_checkpoint(path, digest)
    if state is not None:
        network.load_state_dict(state["network"])
        optimizer.load_state_dict(state["optimizer"])
        done = int(state["epoch"])
    factors = (1.0, part.bias_lr)
    labels = torch.from_numpy(train.y.astype(np.int64))
    steps = bank.images // part.batch
    first, every = number * part.epochs, part.count * part.epochs  # epochs before this teacher's, epochs of all
    reporter.restart_clock()
    for epoch in range(done, part.epochs):
        network.train()
        view = draw_view(seed, STREAM_TEACHER, epoch, bank.images, bank.pad, recipe.alternate_share)
        order = generator(seed, STREAM_ORDER, epoch).permutation(bank.images)
        total = 0.0
        for step in range(steps):
            position = (epoch + step / steps) / part.epochs
            rate = part.lr * triangle(position, part.warmup, part.lr_start, part.lr_end)
            for group, factor in zip(optimizer.param_groups, factors, strict=True):
                group["lr"] = rate * factor
            index = order[step * part.batch : (step + 1) * part.batch]
            with mixed_precision():
                logits = network(network_input(bank.cut(view, index)))
            loss = functional.cross_entropy(logits.float(), labels[index])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            total += loss.item()
            if (step + 1) % 20 == 0 and step + 1 < steps:
                reporter.report("teacher", first + epoch + 1, every, step + 1, steps, total / (step + 1))
        accuracy = accuracy_percent(network, test.x, test.y)
        save_checkpoint(
            path,
            {
                "digest": digest,
                "network": network.state_dict(),
                "optimizer": optimizer.state_dict(),
                "epoch": epoch + 1,
            },
        )
        reporter.report("teacher", first + epoch + 1, every, steps, steps, total / steps, accuracy)
    return network


def teacher_logits(
    recipe: Recipe, number: int, teacher: Teacher, bank: ImageBank, folder: Path, reporter: Reporter
) -> NDArray[np.float32]:
    """Mean logits [N, classes] of teacher `number` over the recipe's views of every training image.

    The logits of each view are stored in a file in `folder`, which is created if missing.
    """
    total = np.zeros((bank.images, teacher.head.out_features), np.float32)
    reporter.restart_clock()
    views = recipe.teacher.views
    for view in range(views):
        path = folder / f"logits-{recipe.digest('teacher')[:12]}-{number}-{view:02d}.npy"
        if not path.exists():
            _write_logits(path, recipe, view, teacher, bank)
            reporter.report("views", number * views + view + 1, recipe.teacher.count * views, 1, 1)
        values = np.load(path, allow_pickle=False)
        if values.shape != total.shape or values.dtype != np.float16:
            raise CheckpointError(
                f"{path}: holds {values.dtype} {values.shape}, expected float16 logits of "
                f"{bank.images} images; delete the file to compute it again"
            )
        total += values
    return total / np.float32(views)


def _write_logits(path: Path, recipe: Recipe, number: int, teacher: Teacher, bank: ImageBank) -> None:
    view = draw_view(recipe.seed, STREAM_VIEWS, number, bank.images, bank.pad, recipe.alternate_share)
    starts = range(0, bank.images, 2000)
    blocks = [logits_of(teacher, bank.cut(view, np.arange(s, min(s + 2000, bank.images)))) for s in starts]
    part = path.with_suffix(".part")
    with part.open("wb") as file:
        np.save(file, torch.cat(blocks).numpy().astype(np.float16))
    part.replace(path)
