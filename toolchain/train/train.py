"""Command `train`: makes a float model file from data files and a recipe. Imports PyTorch only when it is called."""

import logging
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from edgemeta.toolchain.data.apart import check_apart
from edgemeta.toolchain.data.class_folders import Report
from edgemeta.toolchain.data.dataset import Alternates, Dataset, load_alternates, load_dataset
from edgemeta.toolchain.errors import CheckpointError, MissingExtraError
from edgemeta.toolchain.float_model.file import save_float_model
from edgemeta.toolchain.float_model.forward import accuracy
from edgemeta.toolchain.progress import ProgressCallback
from edgemeta.toolchain.train.recipe import Recipe, load_recipe
from edgemeta.toolchain.train.recipe_files import find_recipe

if TYPE_CHECKING:
    from edgemeta.toolchain.train.chain import Chain

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrainResult:
    """Result of `train`.

    path: the float model file. accuracy: share 0..1 of test images classified correctly by the exported float32 model;
    images: number of test images. epochs: epochs of the student in the exported weights.
    """

    path: Path
    accuracy: float
    images: int
    epochs: int


def train(
    recipe: str,
    data: Path,
    test: Path,
    folder: Path,
    out: Path,
    *,
    alternates: Path | None = None,
    resume: bool = True,
    threads: int | None = None,
    progress: ProgressCallback | None = None,
    report: Report = _log.warning,
) -> TrainResult:
    """Train by a recipe (a shipped name or a file) and write the float model to `out`.

    data, test: data sets (`load_dataset`). alternates: alternative pixels of some training images (`load_alternates`).
    folder: run folder for checkpoints, cached logits and log.jsonl. resume: continue the run in the folder; if False, a
    folder that contains a run is refused. report: is called with one sentence where test images are also training
    images; if all are, they are refused. Raises a ToolchainError, which is MissingExtraError without PyTorch.
    """
    chosen = load_recipe(find_recipe(recipe))
    if not resume and any(folder.glob("*.pt")):
        raise CheckpointError(f"{folder}: already contains a run, expected an empty folder (or resume the run)")
    _require_torch()
    from edgemeta.toolchain.train.run import train_network

    names = chosen.labels or None
    images, measured = load_dataset(data, "train", labels=names), load_dataset(test, "test", labels=names)
    check_apart(images, measured, data, test, report)
    other = None if alternates is None else load_alternates(alternates, images)
    network = train_network(chosen, images, measured, folder, alternates=other, threads=threads, progress=progress)
    return _export(chosen, network, chosen.student.epochs, images, measured, out, other)


def _export(
    recipe: Recipe,
    network: "Chain",
    epochs: int,
    images: Dataset,
    measured: Dataset,
    out: Path,
    alternates: Alternates | None,
) -> TrainResult:
    import torch

    from edgemeta.toolchain.train.export import export_network

    provenance: dict[str, object] = {
        "recipe": recipe.name,
        "recipe_sha256": recipe.digest(),
        "epochs": epochs,
        "torch": torch.__version__,
        "train_images": len(images),
        "train_pixels_sha256": images.sha256(),
        "alternate_images": 0 if alternates is None else len(alternates.index),
        "test_images": len(measured),
        "test_pixels_sha256": measured.sha256(),
    }
    model = export_network(network, recipe.name, images.labels, provenance)
    right = accuracy(model, measured.x, measured.y)
    model = replace(model, provenance={**provenance, "test_accuracy": right})
    save_float_model(model, out)
    return TrainResult(out, right, len(measured), epochs)


def _require_torch() -> None:
    try:
        import torch  # noqa: F401
    except ImportError as error:
        raise MissingExtraError(
            "training needs PyTorch, which is not installed: pip install edgemeta[train]"
        ) from error
