"""A complete training run: teachers, their targets, student; each stage continues where it was interrupted."""

from pathlib import Path

import numpy as np
import torch

from edgemeta.toolchain.data.dataset import Alternates, Dataset
from edgemeta.toolchain.data.split import held_out
from edgemeta.toolchain.errors import DataError
from edgemeta.toolchain.progress import ProgressCallback, Reporter
from edgemeta.toolchain.torch_network import TorchNetwork
from edgemeta.toolchain.train.augment import ImageBank
from edgemeta.toolchain.train.recipe import SIZE, Recipe
from edgemeta.toolchain.train.run_folder import data_digest
from edgemeta.toolchain.train.student import DistillationData, continue_student, train_student
from edgemeta.toolchain.train.targets import live_target, stored_target
from edgemeta.toolchain.train.teacher import teacher_logits, train_teacher


def train_network(
    recipe: Recipe,
    train: Dataset,
    test: Dataset,
    folder: Path,
    *,
    alternates: Alternates | None = None,
    threads: int | None = None,
    progress: ProgressCallback | None = None,
) -> TorchNetwork:
    """Train by `recipe` in `folder` (created if missing; continued if it contains checkpoints).

    train, test: images and labels. Epochs are measured on the part of the training images that the recipe holds out;
    only if it holds out none, on the test images. alternates: alternative pixels of some training images. threads: CPU
    threads (None: PyTorch's default). Returns the averaged student, or the mean of its continuations, in evaluation
    mode. Without teachers the labels are the only targets. Raises DataError for images that do not fit, CheckpointError
    for checkpoints of another recipe or other training data.
    """
    _check_data(recipe, train, test)
    if threads is not None:
        torch.set_num_threads(threads)
    folder.mkdir(parents=True, exist_ok=True)
    reporter = Reporter(folder / "log.jsonl", progress)
    data = data_digest(train) if alternates is None else data_digest(train, alternates)
    train, measured, alternates = _parts(recipe, train, test, alternates)
    other = (alternates.x, alternates.index) if alternates is not None else (None, None)
    bank = ImageBank(train.x, recipe.teacher.pad, *other)
    teachers, targets = [], np.zeros((len(train), len(train.labels)), np.float32)
    for number in range(recipe.teacher.count):
        teacher = train_teacher(recipe, number, bank, train, measured, folder, data, reporter)
        teachers.append(teacher)
        if recipe.teacher.views:
            mean = teacher_logits(recipe, number, teacher, bank, folder, data, reporter)
            targets += mean / np.float32(recipe.teacher.count)
    batches = recipe.student.epochs * (len(train) // recipe.student.batch)
    target = stored_target(targets) if recipe.teacher.views or not teachers else live_target(teachers, batches)
    inputs = DistillationData(train, ImageBank(train.x, recipe.student.pad, *other), target, measured)
    student = train_student(recipe, inputs, folder, data, reporter)
    return continue_student(recipe, student, inputs, folder, data, reporter)


def _parts(
    recipe: Recipe, train: Dataset, test: Dataset, alternates: Alternates | None
) -> tuple[Dataset, Dataset, Alternates | None]:
    """What is trained on, what is measured, and the alternative pixels of the first."""
    if not recipe.validation:
        return train, test, alternates
    rest = ~held_out(train, recipe.validation, recipe.seed)
    return train.take(rest), train.take(~rest), None if alternates is None else alternates.of(rest)


def _check_data(recipe: Recipe, train: Dataset, test: Dataset) -> None:
    for what, data in (("training", train), ("test", test)):
        if data.x.shape[1:] != (SIZE, SIZE, 3):
            raise DataError(f"the {what} images are {data.x.shape[1:]}, expected {(SIZE, SIZE, 3)}")
    if train.labels != test.labels:
        raise DataError(
            f"the training images have {len(train.labels)} classes ({train.labels[0]}, ...) and the test images "
            f"{len(test.labels)} ({test.labels[0]}, ...), expected the same classes"
        )
    batch = max(recipe.teacher.batch if recipe.teacher.count else 0, recipe.student.batch)
    if len(train) < batch:
        raise DataError(f"there are {len(train)} training images, expected at least one batch of {batch}")
