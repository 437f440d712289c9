"""Scheme `incremental` of the command `quantize`. Imports PyTorch only when it is called."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from edgemeta.model.graph import FloatModel
from edgemeta.model.tasks import Detection
from edgemeta.toolchain.data.boxed_images import is_boxed, save_boxed_images
from edgemeta.toolchain.data.dataset import load_alternates, load_dataset
from edgemeta.toolchain.errors import QuantizeError
from edgemeta.toolchain.incremental.settings import IncrementalSettings
from edgemeta.toolchain.quantize.calibration import DATASET_IMAGES, PICTURES, Calibration, PreparedImages
from edgemeta.toolchain.quantize.compare import Expected
from edgemeta.toolchain.quantize.events import Agreement, Events, Stage
from edgemeta.toolchain.quantize.measure import BoxesMeasured, Measured, boxed_images, measure, measure_boxes
from edgemeta.toolchain.quantize.multiplier_free import require_multiplier_free
from edgemeta.toolchain.quantize.scheme import SchemeResult
from edgemeta.toolchain.train.requirements import require_torch
from edgemeta.toolchain.train.run_folder import VALIDATION, opened_run, save_npz
from edgemeta.toolchain.train.start import is_trainable

_EVERY = 1 << 30


@dataclass(frozen=True)
class Imitated:
    """Both networks on the images that are held out of a retraining without labels.

    boxes: None where the images have none.
    """

    images: int
    agreement: Agreement
    boxes: BoxesMeasured | None


@dataclass(frozen=True)
class IncrementalResult(SchemeResult):
    """validation: both networks on the images that are held out of the retraining."""

    validation: Measured | Imitated


@dataclass(frozen=True)
class IncrementalScheme:
    """Scheme `incremental`.

    train: labelled training images (`load_dataset`) of a classification of square colour pictures; of any other network
    pictures, which need no labels (`Calibration`). alternates: of labelled images, other pixels of some of them
    (`load_alternates`). folder: of the run, which is continued, or deleted before if `fresh`. threads: CPU threads of
    PyTorch; None: its default. calibration: images for the ranges of tensors; None: training images.
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

        The images that are held out are written to the run's folder, for `eval`, where they have labels or boxes.
        Raises a ToolchainError.
        """
        self.settings.require_all()
        require_multiplier_free(model)
        require_torch()
        import torch

        if self.threads is not None:
            torch.set_num_threads(self.threads)
        made = (self._labelled if is_trainable(model) else self._imitated)(model, following, events)
        stated = {"scheme": "incremental", **self.settings.provenance(), "torch": torch.__version__}
        return replace(made, model=replace(made.model, provenance={**stated, **made.model.provenance}))

    def _labelled(self, model: FloatModel, following: Sequence[Stage], events: Events) -> IncrementalResult:
        from edgemeta.toolchain.incremental.run import integer_network, parts, range_images, retrained

        settings = self.settings
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
            "train_images": len(train),
            "train_pixels_sha256": train.sha256(),
            "alternate_images": 0 if others is None else len(others.index),
            "validation_images": measured.images,
            "validation_pixels_sha256": measured.pixels_sha256,
            "validation_accuracy": measured.accuracy,
            "float_validation_accuracy": measured.float_accuracy,
        }
        return IncrementalResult(replace(integer, provenance=provenance), len(images), measured)

    def _imitated(self, model: FloatModel, following: Sequence[Stage], events: Events) -> IncrementalResult:
        from edgemeta.toolchain.incremental.imitation import PictureParts
        from edgemeta.toolchain.incremental.run import imitated, integer_network

        if self.alternates is not None:
            raise QuantizeError(f"{self.alternates}: other pixels are for labelled images of a classification")
        boxes = boxed_images(self.train, model) if is_boxed(self.train) and isinstance(model.task, Detection) else None
        frames = Calibration(self.train, _EVERY).frames(events.left_out)
        events.planned((Stage("images", len(frames)),))
        pictures = PictureParts(PreparedImages(model, frames, events.stage("images")), self.settings.held_out)
        held = pictures.held_out
        boxes = None if boxes is None else boxes.take(held)
        with opened_run(self.folder, self.fresh, events.left_out):
            if boxes is not None:
                save_boxed_images(boxes, self.folder / VALIDATION)
            trained = imitated(model, self.settings, pictures, self.folder, events.retrained)
        images = pictures.images.take(pictures.learned.tolist()).chosen(PICTURES)
        if self.calibration is not None:
            images = PreparedImages(model, self.calibration.frames(events.left_out))
        stages = [Stage("ranges", 1.5 * len(images)), Stage("float network", len(held))]
        stages += [Stage("validation images", len(held) * part) for part in (0.1, 1.1)[: 1 + (boxes is not None)]]
        events.planned((*stages, *following))
        integer, _ = integer_network(trained.network, images, events.stage("ranges"))
        expected = Expected(model, pictures.images.take(held.tolist()), events.stage("float network"))
        agreement = expected.measure(integer, "incremental", events.stage("validation images"))
        found = None
        if boxes is not None:
            found = measure_boxes(model, integer, boxes, events.stage("validation images"))
        provenance = {
            "train_images": len(pictures.images),
            "train_pixels_sha256": pictures.sha256(),
            "validation_images": len(held),
            "validation_output_error": round(agreement.error, 6),
        }
        if found is not None:
            provenance |= {"validation_map50": found.integer.at_half, "float_validation_map50": found.floating.at_half}
        measured = Imitated(len(held), agreement, found)
        return IncrementalResult(replace(integer, provenance=provenance), len(images), measured)
