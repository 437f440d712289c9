"""Scheme `incremental` of the command `quantize`. Imports PyTorch only when it is called."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from edgemeta.model.graph import FloatModel
from edgemeta.toolchain.data.dataset import load_alternates, load_dataset
from edgemeta.toolchain.incremental.settings import IncrementalSettings
from edgemeta.toolchain.quantize.calibration import DATASET_IMAGES, Calibration, PreparedImages
from edgemeta.toolchain.quantize.events import Events, Stage
from edgemeta.toolchain.quantize.measure import Measured, measure
from edgemeta.toolchain.quantize.scheme import SchemeResult
from edgemeta.toolchain.train.requirements import require_torch
from edgemeta.toolchain.train.run_folder import VALIDATION, opened_run, save_npz


@dataclass(frozen=True)
class IncrementalResult(SchemeResult):
    """validation: both networks on the images that are held out of the retraining."""

    validation: Measured


@dataclass(frozen=True)
class IncrementalScheme:
    """Scheme `incremental`.

    train: labelled training images (`load_dataset`); alternates: other pixels of some of them (`load_alternates`).
    folder: of the run, which is continued, or deleted before if `fresh`. threads: CPU threads of PyTorch; None: its
    default. calibration: images for the ranges of tensors; None: training images.
    """

    train: Path
    folder: Path
    settings: IncrementalSettings = field(default_factory=IncrementalSettings)
    alternates: Path | None = None
    fresh: bool = False
    threads: int | None = None
    calibration: Calibration | None = None

    def run(self, model: FloatModel, following: Sequence[Stage], events: Events) -> IncrementalResult:
        """Retrain in steps until all weights are powers of two, then build the integer network.

        The images that are held out are written to the run's folder, for `eval`. Raises a ToolchainError.
        """
        settings = self.settings
        settings.require_all()
        require_torch()
        import torch

        from edgemeta.toolchain.incremental.run import integer_network, parts, range_images, retrained

        if self.threads is not None:
            torch.set_num_threads(self.threads)
        train = load_dataset(self.train, "train", model.input_shape[0], events.left_out, labels=model.labels)
        others = None if self.alternates is None else load_alternates(self.alternates, train)
        with opened_run(self.folder, self.fresh, events.left_out):
            _, validation = parts(train, settings)
            save_npz(validation, self.folder / VALIDATION)
            trained = retrained(model, settings, train, self.folder, alternates=others, progress=events.retrained)
        frames = None if self.calibration is None else self.calibration.frames(events.left_out)
        count = DATASET_IMAGES if frames is None else len(frames)
        stages = Stage("images", 0.2 * count), Stage("ranges", 1.5 * count)
        events.planned((*stages, Stage("validation images", 1.1 * len(validation)), *following))
        stage = events.stage("images")
        images = range_images(model, train, settings, stage) if frames is None else PreparedImages(model, frames, stage)
        integer, _ = integer_network(trained.network, images, events.stage("ranges"))
        measured = measure(model, integer, validation, events.stage("validation images"))
        provenance = {
            "scheme": "incremental",
            **settings.provenance(),
            "torch": torch.__version__,
            "train_images": len(train),
            "train_pixels_sha256": train.sha256(),
            "alternate_images": 0 if others is None else len(others.index),
            "validation_images": measured.images,
            "validation_pixels_sha256": measured.pixels_sha256,
            "validation_accuracy": measured.accuracy,
            "float_validation_accuracy": measured.float_accuracy,
        }
        return IncrementalResult(replace(integer, provenance=provenance), len(images), measured)
