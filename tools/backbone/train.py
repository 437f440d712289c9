"""Trains the backbone: each step, two half batches of views; their loss joins the labels and the teacher's maps."""

import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from edgemeta.model.callbacks import Report
from edgemeta.toolchain.data.class_folders import list_class_folders
from edgemeta.toolchain.data.dataset import Alternates, Dataset
from edgemeta.toolchain.data.picture_files import read_pictures
from edgemeta.toolchain.progress import ProgressCallback, Reporter
from edgemeta.toolchain.train.batches import accuracy_percent, mixed_precision, network_input
from edgemeta.toolchain.train.checkpoint import RunIdentity
from edgemeta.toolchain.train.loop import BatchLoss, Training, run_epochs
from edgemeta.toolchain.train.optimizer_step import OptimizerStep, parameter_groups
from tools.backbone.recipe import HELD_OUT, BackboneRecipe
from tools.backbone.student import Student
from tools.backbone.teacher import Teacher
from tools.backbone.views import UNLABELLED, Picture, Views

_MEASURED = 1000
"""Held out images that an epoch is measured on."""
_SPREAD_EPOCH, _SPREAD_BATCHES = 10**6, 8
"""Number of the epoch whose first batches give the teacher's means and deviations."""


class Pictures:
    """What the views are made of.

    labelled: CIFAR-10's training images. alternates: other pixels of some of them. photographs: uint8 [H, W, 3] RGB,
    without labels. The last HELD_OUT images are not trained on.
    """

    def __init__(self, labelled: Dataset, alternates: Alternates | None, photographs: Sequence[Picture]) -> None:
        count = len(labelled) - HELD_OUT
        self.images, self.y = labelled.x[:count], labelled.y[:count].astype(np.int64)
        self.held_out, self.held_out_y = labelled.x[count:], labelled.y[count:]
        self.alternates: dict[int, Picture] = {}
        if alternates is not None:
            pairs = zip(alternates.index, alternates.x, strict=True)
            self.alternates = {int(number): pixels for number, pixels in pairs if number < count}
        self.photographs = photographs

    def sha256(self) -> str:
        """SHA-256 (hex) of all pixels and classes."""
        digest = hashlib.sha256(np.ascontiguousarray(self.images).tobytes() + self.y.tobytes())
        for number, pixels in sorted(self.alternates.items()):
            digest.update(str(number).encode() + np.ascontiguousarray(pixels).tobytes())
        for photograph in self.photographs:
            digest.update(str(photograph.shape).encode() + np.ascontiguousarray(photograph).tobytes())
        return digest.hexdigest()


def read_photographs(folder: Path, report: Report) -> list[Picture]:
    """Pixels uint8 [H, W, 3] RGB of the pictures in the folders of a folder; their names say nothing here."""
    files = list_class_folders(folder, report, least_classes=1)
    return [np.ascontiguousarray(pixels[..., ::-1]) for _, pixels in read_pictures(files, report)]


def train_backbone(
    recipe: BackboneRecipe,
    pictures: Pictures,
    teacher_file: Path,
    folder: Path,
    progress: ProgressCallback | None = None,
) -> Student:
    """Train by `recipe` in `folder` (created if missing), or continue; the averaged weights, in evaluation mode.

    Raises a ToolchainError: for a teacher without the maps, or a checkpoint of another recipe or other pictures.
    """
    folder.mkdir(parents=True, exist_ok=True)
    views = Views(recipe, pictures.images, pictures.y, pictures.alternates, pictures.photographs)
    teacher = Teacher(teacher_file, recipe.imitations, recipe.view)
    torch.manual_seed(1)
    student = Student(recipe)
    student.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    student.measure([teacher.maps(views.batch(_SPREAD_EPOCH, number)[0]) for number in range(_SPREAD_BATCHES)])
    squares = scaled_to(pictures.held_out[:_MEASURED], recipe.size)

    def measure(network: nn.Module) -> float:
        return accuracy_percent(network, squares, pictures.held_out_y[:_MEASURED], 100)

    with ThreadPoolExecutor(1) as drawer:  # draws the second half while the first one is in the network

        def losses(epoch: int) -> BatchLoss:
            def loss(steps: NDArray[np.int64]) -> Tensor:
                halves = [drawer.submit(_drawn, views, teacher, epoch, 2 * int(steps[0]) + part) for part in (0, 1)]
                both = [half_loss(recipe, student, *half.result()) for half in halves]
                return (both[0] + both[1]) / 2

            return loss

        training = Training(
            stage="student",
            network=student,
            step=OptimizerStep(torch.optim.AdamW(parameter_groups(student, recipe.weight_decay), lr=recipe.lr)),
            epochs=recipe.epochs,
            images=recipe.steps,
            batch=1,
            order=lambda _: np.arange(recipe.steps),
            rates=lambda epoch, step: [recipe.rate(epoch * recipe.steps + step)] * 2,
            losses=losses,
            measure=measure,
            evaluate_every=2,
            average=recipe.average,
            report_every=10,
        )
        identity = RunIdentity(recipe.digest(), pictures.sha256())
        reporter = Reporter(folder / "log.jsonl", progress)
        return run_epochs(training, folder / "backbone.pt", identity, reporter).network


def scaled_to(images: NDArray[np.uint8], size: int) -> NDArray[np.uint8]:
    """Images [N, H, W, 3] as [N, size, size, 3]: means of areas, or interpolated between pixels."""
    how = cv2.INTER_AREA if images.shape[1] > size else cv2.INTER_LINEAR
    scaled = [cv2.resize(image, (size, size), interpolation=how) for image in images]
    return np.stack([np.asarray(image, np.uint8) for image in scaled])


def half_loss(
    recipe: BackboneRecipe, student: Student, x: NDArray[np.uint8], y: NDArray[np.int64], maps: list[Tensor]
) -> Tensor:
    """Cross entropy of the labelled views, and distance of each map to the teacher's (smooth L1, in deviations)."""
    planes = np.ascontiguousarray(scaled_to(x, recipe.size).transpose(0, 3, 1, 2))
    with mixed_precision():
        logits, found = student.imitate(network_input(planes))
    classes = torch.from_numpy(y)
    is_labelled = classes != UNLABELLED
    loss = recipe.label_weight * functional.cross_entropy(
        logits.float()[is_labelled], classes[is_labelled], label_smoothing=recipe.label_smoothing
    )
    for each, mine, wanted in zip(recipe.imitations, found, student.in_deviations(maps), strict=True):
        loss = loss + each.weight * functional.smooth_l1_loss(mine.float(), wanted)
    return loss


def _drawn(
    views: Views, teacher: Teacher, epoch: int, number: int
) -> tuple[NDArray[np.uint8], NDArray[np.int64], list[Tensor]]:
    x, y = views.batch(epoch, number)
    return x, y, teacher.maps(x)
