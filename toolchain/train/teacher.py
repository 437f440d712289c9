"""Training of the teacher and the cache of its logits on the augmented views."""

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from edgemeta.toolchain.data import Dataset
from edgemeta.toolchain.errors import CheckpointError
from edgemeta.toolchain.progress import Reporter
from edgemeta.toolchain.recipe import Recipe, TeacherRecipe
from edgemeta.toolchain.train.augment import STREAM_ORDER, STREAM_TEACHER, ImageBank, draw_view, generator
from edgemeta.toolchain.train.batches import accuracy_percent, logits_of, network_input
from edgemeta.toolchain.train.checkpoint import load_checkpoint, save_checkpoint
from edgemeta.toolchain.train.networks import Teacher
from edgemeta.toolchain.train.views import StudentView


def triangle(position: float, warmup: float, start: float, end: float) -> float:
    """Factor on the learning rate at `position` 0..1: linear from `start` up to 1 at `warmup`, then down to `end`."""
    if position < warmup:
        return start + (1.0 - start) * position / warmup
    return 1.0 + (end - 1.0) * (position - warmup) / (1.0 - warmup)


def teacher_rate(recipe: TeacherRecipe, epoch: float) -> float:
    """Learning rate after `epoch` epochs (with fractions): the triangle, then the second descent."""
    main = recipe.epochs - recipe.refine_epochs
    if epoch < main:
        return recipe.lr * triangle(epoch / main, recipe.warmup, recipe.lr_start, recipe.lr_end)
    return recipe.refine_lr * (recipe.epochs - epoch) / max(recipe.refine_epochs, 1)


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
    recipe: Recipe, bank: ImageBank, train: Dataset, test: Dataset, folder: Path, reporter: Reporter
) -> Teacher:
    """Train (or continue, or just load) the teacher; its checkpoint is folder/teacher.pt."""
    part = recipe.teacher
    path, digest = folder / "teacher.pt", recipe.digest("teacher")
    torch.manual_seed(recipe.seed)
    network = Teacher(part.widths, len(train.labels))
    first = np.ascontiguousarray(train.x[:5000].transpose(0, 3, 1, 2))
    network.whiten(network_input(first))
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
    reporter.restart_clock()
    for epoch in range(done, part.epochs):
        network.train()
        view = draw_view(recipe.seed, STREAM_TEACHER, epoch, bank.images, bank.pad, recipe.views.alternate_share)
        order = generator(recipe.seed, STREAM_ORDER, epoch).permutation(bank.images)
        total = 0.0
        for step in range(steps):
            rate = teacher_rate(part, epoch + step / steps)
            for group, factor in zip(optimizer.param_groups, factors, strict=True):
                group["lr"] = rate * factor
            index = order[step * part.batch : (step + 1) * part.batch]
            with torch.autocast("cpu", torch.bfloat16):
                logits = network(network_input(bank.cut(view, index)))
            loss = functional.cross_entropy(logits.float(), labels[index], label_smoothing=part.smoothing)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            total += loss.item()
            if (step + 1) % 20 == 0 and step + 1 < steps:
                reporter.report("teacher", epoch + 1, part.epochs, step + 1, steps, total / (step + 1))
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
        reporter.report("teacher", epoch + 1, part.epochs, steps, steps, total / steps, accuracy)
    return network


def cached_logits(
    recipe: Recipe, bank: ImageBank, teacher: Teacher, folder: Path, reporter: Reporter
) -> NDArray[np.float16]:
    """Give the targets, float16 [views + mixed, N, classes]: the teacher's logits, blended as the recipe says.

    The raw logits of every view are a file in `folder`, made where it is missing.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tag = recipe.digest("teacher", "views")[:12]
    out: list[NDArray[np.float16]] = []
    reporter.restart_clock()
    total = recipe.views.count + recipe.views.mixed
    for number in range(total):
        path = folder / f"logits-{tag}-{number:02d}.npy"
        if path.exists():
            values = np.load(path, allow_pickle=False)
            if values.shape[0] != bank.images or values.dtype != np.float16:
                raise CheckpointError(
                    f"{path}: holds {values.dtype} {values.shape}, expected float16 logits of "
                    f"{bank.images} images; delete it to have it made again"
                )
        else:
            view = StudentView(recipe, bank, number)
            blocks = [
                logits_of(teacher, view.pixels(np.arange(s, min(s + 2000, bank.images))))
                for s in range(0, bank.images, 2000)
            ]
            values = torch.cat(blocks).numpy().astype(np.float16)
            part = path.with_suffix(".part")
            with part.open("wb") as file:
                np.save(file, values)
            part.replace(path)
            reporter.report("views", number + 1, total, 1, 1)
        out.append(values)
    raw = np.stack(out[: recipe.views.count]).astype(np.float32)
    blend = np.float32(recipe.views.blend)
    targets = ((1 - blend) * raw + blend * raw.mean(0)).astype(np.float16)
    return np.concatenate([targets, *[m[None] for m in out[recipe.views.count :]]])
