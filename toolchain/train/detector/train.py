"""Command `train` with a detector's recipe: makes a float model of images with boxes. Imports PyTorch when called."""

import logging
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from edgemeta.model.callbacks import Report
from edgemeta.model.float_file import save_float_model
from edgemeta.toolchain.data.boxed_images import boxed_part, load_boxed_images, save_boxed_images
from edgemeta.toolchain.data.split import SPLIT_SEED
from edgemeta.toolchain.evaluate.average_precision import Precision
from edgemeta.toolchain.evaluate.detection import evaluate_float_detector
from edgemeta.toolchain.progress import ProgressCallback, Reporter
from edgemeta.toolchain.train.detector.recipe import load_detector_recipe
from edgemeta.toolchain.train.requirements import require_torch
from edgemeta.toolchain.train.run_folder import VALIDATION, opened_run
from edgemeta.toolchain.train.start import ENTRY

_log = logging.getLogger(__name__)

_FILL = (128,)
"""What a letterbox adds: the pixel that the network sees as 0, as in the padding of its convolutions."""


@dataclass(frozen=True)
class DetectorResult:
    """Result of `train_detector`.

    path: the float model file. precision: of the exported float32 model on the test images. epochs: of the training.
    held_out: file with the training images that the recipe holds out; None if it holds out none.
    """

    path: Path
    precision: Precision
    epochs: int
    held_out: Path | None


def train_detector(
    recipe: Path,
    data: Path,
    test: Path,
    folder: Path,
    out: Path,
    *,
    name: str | None = None,
    fresh: bool = False,
    threads: int | None = None,
    progress: ProgressCallback | None = None,
    report: Report = _log.warning,
) -> DetectorResult:
    """Train by a detector's recipe, or continue the run in `folder`, and write the float model to `out`.

    data, test: images with boxes (`load_boxed_images`); the labels are those of `data`. name: of the model; None: the
    recipe's. fresh: delete the run in the folder before. report: called with one sentence for what is deleted. Raises a
    ToolchainError, which is MissingExtraError without PyTorch.
    """
    chosen = load_detector_recipe(recipe)
    require_torch()
    import torch

    from edgemeta.toolchain.train.detector.run import train_tiny_yolo

    images = load_boxed_images(data)
    measured = load_boxed_images(test, labels=images.labels)
    if threads is not None:
        torch.set_num_threads(threads)
    with opened_run(folder, fresh, report):
        training, watched, kept = images, measured, None
        if chosen.validation:
            part = boxed_part(images, chosen.validation, SPLIT_SEED)
            training, watched, kept = (
                images.take(np.flatnonzero(~part)),
                images.take(np.flatnonzero(part)),
                folder / VALIDATION,
            )
            save_boxed_images(watched, kept)
        network = train_tiny_yolo(chosen, training, watched, folder, Reporter(folder / "log.jsonl", progress))
    provenance = {
        ENTRY: asdict(chosen.network),
        "recipe": chosen.name,
        "recipe_sha256": chosen.digest(),
        "epochs": chosen.epochs,
        "torch": torch.__version__,
        "train_images": len(images),
        "validation_share": chosen.validation,
        "train_sha256": images.sha256(),
        "test_images": len(measured),
        "test_sha256": measured.sha256(),
    }
    model = network.written(name=name or chosen.name, provenance=provenance, crop="letterbox", fill=_FILL)
    precision = evaluate_float_detector(model, measured, lambda _done, _total: None)
    model = replace(model, provenance={**provenance, "test_map50": precision.at_half, "test_map": precision.mean})
    save_float_model(model, out)
    return DetectorResult(out, precision, chosen.epochs, kept)
