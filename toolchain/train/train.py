"""Command `train` with a recipe: makes a float model file from data files. Imports PyTorch only when it is called."""

import logging
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from edgemeta.model.callbacks import Report
from edgemeta.model.float_file import save_float_model
from edgemeta.model.float_reference import accuracy
from edgemeta.toolchain.data.apart import check_apart
from edgemeta.toolchain.data.dataset import Alternates, Dataset, load_alternates, load_dataset
from edgemeta.toolchain.data.split import held_out
from edgemeta.toolchain.progress import ProgressCallback
from edgemeta.toolchain.train.pictures_data import data_name
from edgemeta.toolchain.train.recipe import SIZE, Recipe, find_recipe, load_recipe
from edgemeta.toolchain.train.requirements import require_torch
from edgemeta.toolchain.train.run_folder import VALIDATION, opened_run, save_npz
from edgemeta.toolchain.train.start import ENTRY, described

if TYPE_CHECKING:
    from edgemeta.toolchain.torch_network import TorchNetwork

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrainResult:
    """Result of `train`.

    path: the float model file. accuracy: share 0..1 of test images classified correctly by the exported float32 model;
    images: number of test images. epochs: epochs of the student in the exported weights. held_out: file with the
    training images that the recipe holds out; None if it holds out none.
    """

    path: Path
    accuracy: float
    images: int
    epochs: int
    held_out: Path | None = None


def train(
    recipe: str,
    data: Path,
    test: Path,
    folder: Path,
    out: Path,
    *,
    alternates: Path | None = None,
    name: str | None = None,
    fresh: bool = False,
    threads: int | None = None,
    progress: ProgressCallback | None = None,
    report: Report = _log.warning,
) -> TrainResult:
    """Train by a recipe (a shipped name or a file) and write the float model to `out`.

    data, test: data sets (`load_dataset`). alternates: alternative pixels of some training images (`load_alternates`).
    folder: run folder for checkpoints, cached logits and log.jsonl; a run in it is continued, or deleted before if
    `fresh`. name: of the model; None: that of the recipe for data with the recipe's labels, that of the network and
    the data for others. report: called with one sentence for what is left out or deleted, and where test images are
    also training images; if all are, they are refused. Raises a ToolchainError, which is MissingExtraError without
    PyTorch.
    """
    chosen = load_recipe(find_recipe(recipe))
    require_torch()
    from edgemeta.toolchain.train.run import train_network

    names = chosen.labels or None
    images = load_dataset(data, "train", SIZE, report, labels=names)
    measured = load_dataset(test, "test", SIZE, report, labels=names)
    check_apart(images, measured, data, test, report)
    other = None if alternates is None else load_alternates(alternates, images)
    kept = folder / VALIDATION if chosen.validation else None
    with opened_run(folder, fresh, report):
        if kept is not None:
            save_npz(images.take(held_out(images, chosen.validation, chosen.seed)), kept)
        network = train_network(chosen, images, measured, folder, alternates=other, threads=threads, progress=progress)
    if name is None:
        name = chosen.name if chosen.labels == images.labels else f"{chosen.design(2).name}-{data_name(data)}"
    return replace(_export(chosen, network, name, images, measured, out, other), held_out=kept)


def _export(
    recipe: Recipe,
    network: "TorchNetwork",
    name: str,
    images: Dataset,
    measured: Dataset,
    out: Path,
    alternates: Alternates | None,
) -> TrainResult:
    import torch

    epochs = recipe.student.epochs
    provenance: dict[str, object] = {
        ENTRY: described(recipe.design(len(images.labels))),
        **({"recipe": recipe.name} if recipe.labels == images.labels else {}),
        "recipe_sha256": recipe.digest(),
        "epochs": epochs,
        "torch": torch.__version__,
        "train_images": len(images),
        "validation_share": recipe.validation,
        "train_pixels_sha256": images.sha256(),
        "alternate_images": 0 if alternates is None else len(alternates.index),
        "test_images": len(measured),
        "test_pixels_sha256": measured.sha256(),
    }
    model = network.classification(name, images.labels, provenance)
    right = accuracy(model, measured.x, measured.y)
    model = replace(model, provenance={**provenance, "test_accuracy": right})
    save_float_model(model, out)
    return TrainResult(out, right, len(measured), epochs)
