"""Command `train` without a recipe: a float model of own pictures. Imports PyTorch only when it is called."""

import hashlib
import logging
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from edgemeta.model.callbacks import Report
from edgemeta.model.float_file import load_float_model, save_float_model
from edgemeta.model.float_reference import logits
from edgemeta.model.graph import FloatModel
from edgemeta.model.zoo import find
from edgemeta.toolchain.data.dataset import Dataset
from edgemeta.toolchain.progress import ProgressCallback, Reporter
from edgemeta.toolchain.train.confusion import Confusion, confusion
from edgemeta.toolchain.train.designs import Design, Wishes
from edgemeta.toolchain.train.pictures_data import PicturesData, load_pictures, load_test
from edgemeta.toolchain.train.requirements import require_torch
from edgemeta.toolchain.train.run_folder import (
    VALIDATION,
    data_digest,
    opened_run,
    save_npz,
    save_text,
)
from edgemeta.toolchain.train.start import described, design_of

if TYPE_CHECKING:
    from edgemeta.toolchain.torch_network import TorchNetwork
    from edgemeta.toolchain.train.loop import Trained
    from edgemeta.toolchain.train.pictures_recipe import PicturesRecipe

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PicturesResult:
    """Result of `train_pictures`.

    path: the float model file; name: its name; network: that of its design. size: side of its input in pixels.
    epochs: of the training; epoch: the exported one, from 1, best on the validation part. validation, test: what the
    exported float32 model says about both parts; test is None without test images. held_out: file with the validation
    part, for `quantize`. table, picture: files with the confusion table of the test images, or of the validation part
    without.
    """

    path: Path
    name: str
    network: str
    size: int
    epochs: int
    epoch: int
    validation: Confusion
    test: Confusion | None
    held_out: Path
    table: Path
    picture: Path

    @property
    def measured(self) -> Confusion:
        """That of the test images, or of the validation part without."""
        return self.validation if self.test is None else self.test


def train_pictures(
    data: Path,
    folder: Path,
    out: Path,
    *,
    test: Path | None = None,
    wishes: Wishes | None = None,
    start: str | None = None,
    epochs: int | None = None,
    name: str | None = None,
    fresh: bool = False,
    threads: int | None = None,
    progress: ProgressCallback | None = None,
    report: Report = _log.warning,
) -> PicturesResult:
    """Train a network on labelled pictures, or continue the run in `folder`, and write the float model to `out`.

    data: a data set (`load_dataset`); a fixed part of it chooses the best epoch. test: labelled images that are only
    measured, at the end. wishes: what the network is to be. start: float model, a file or a shipped name, whose weights
    are the first ones. epochs: None: those of the recipe. name: of the model; None: that of the network and the data.
    fresh: delete the run in the folder before. report: called with one sentence for what is left out or deleted.
    Raises a ToolchainError, which is MissingExtraError without PyTorch.
    """
    require_torch()
    import torch

    from edgemeta.toolchain.train.pictures_recipe import PicturesRecipe

    recipe = PicturesRecipe() if epochs is None else PicturesRecipe(epochs=epochs)
    wishes = wishes or Wishes()
    first = None if start is None else _Start(start, load_float_model(find(start)))
    size = wishes.size if wishes.size is not None or first is None else first.model.input_shape[0]
    pictures = load_pictures(data, size, recipe.margin, recipe.validation, recipe.seed, report)
    measured = None if test is None else load_test(test, data, pictures, report)
    given = None if first is None else design_of(first.model, first.name)
    run = _Run(recipe, wishes.design(pictures.size, len(pictures.training.labels), given), pictures, first, folder)
    with opened_run(folder, fresh, report):
        if threads is not None:
            torch.set_num_threads(threads)
        trained = run.train(Reporter(folder / "log.jsonl", progress))
        model = run.export(trained, name or f"{run.design.name}-{pictures.name}")
        return _measure(model, run, trained, measured, out)


@dataclass(frozen=True)
class _Start:
    """The float model to start from, and how the user called it."""

    name: str
    model: FloatModel

    def digest(self) -> str:
        """SHA-256 (hex) of its file."""
        return hashlib.sha256(find(self.name).read_bytes()).hexdigest()


@dataclass(frozen=True)
class _Run:
    """A training with everything that decides its steps."""

    recipe: "PicturesRecipe"
    design: Design
    pictures: PicturesData
    start: _Start | None
    folder: Path

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of all but the data."""
        return self.recipe.digest(self.design, None if self.start is None else self.start.digest())

    def train(self, reporter: Reporter) -> "Trained[TorchNetwork]":
        """Train, or continue."""
        import torch

        from edgemeta.toolchain.torch_network import load_weights
        from edgemeta.toolchain.train.checkpoint import RunIdentity
        from edgemeta.toolchain.train.networks import build
        from edgemeta.toolchain.train.pictures_recipe import train_on_pictures

        torch.manual_seed(self.recipe.seed)
        network = build(self.design)
        if self.start is not None:
            load_weights(network, self.start.model, self.start.name)
        training, validation = self.pictures.training, self.pictures.validation
        identity = RunIdentity(self.digest, data_digest(training, validation))
        checkpoint = self.folder / "network.pt"
        return train_on_pictures(self.recipe, network, training, validation, checkpoint, identity, reporter)

    def export(self, trained: "Trained[TorchNetwork]", name: str) -> FloatModel:
        """The trained network as a float model that says what it was made of."""
        import torch

        training, validation = self.pictures.training, self.pictures.validation
        provenance: dict[str, object] = {
            "network": described(self.design),
            "data": self.pictures.name,
            "recipe_sha256": self.digest,
            "epochs": self.recipe.epochs,
            "best_epoch": trained.epoch,
            "torch": torch.__version__,
            "train_images": len(training),
            "train_pixels_sha256": training.sha256(),
            "validation_images": len(validation),
            "validation_pixels_sha256": validation.sha256(),
        }
        if self.start is not None:
            provenance["start"] = {"name": self.start.model.name, "sha256": self.start.digest()}
        return trained.network.classification(name, training.labels, provenance)


def _measure(
    model: FloatModel, run: _Run, trained: "Trained[TorchNetwork]", test: Dataset | None, out: Path
) -> PicturesResult:
    """Measure the exported float32 model, write it and the confusion table."""
    validation = _confusion(model, run.pictures.validation)
    tested = None if test is None else _confusion(model, test)
    figures: dict[str, object] = {"validation_accuracy": validation.accuracy}
    if test is not None and tested is not None:
        figures |= {
            "test_images": len(test),
            "test_pixels_sha256": test.sha256(),
            "test_accuracy": tested.accuracy,
        }
    result = PicturesResult(
        path=out,
        name=model.name,
        network=run.design.name,
        size=run.design.size,
        epochs=run.recipe.epochs,
        epoch=trained.epoch,
        validation=validation,
        test=tested,
        held_out=run.folder / VALIDATION,
        table=run.folder / "confusion.txt",
        picture=run.folder / "confusion.png",
    )
    save_float_model(replace(model, provenance={**model.provenance, **figures}), out)
    save_npz(run.pictures.validation, result.held_out)
    save_text(result.measured.text(), result.table)
    result.measured.save_png(result.picture)
    return result


def _confusion(model: FloatModel, images: Dataset) -> Confusion:
    return confusion(images.labels, images.y, logits(model, images.x).argmax(1))
