"""Command `train --task detection`: a float model of own pictures with boxes. Imports PyTorch when it is called."""

import hashlib
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from edgemeta.model.callbacks import Report
from edgemeta.model.float_file import save_float_model
from edgemeta.model.graph import FloatModel
from edgemeta.model.zoo import find
from edgemeta.toolchain.data.boxed_images import BoxedImages, save_boxed_images
from edgemeta.toolchain.data.boxes.opened import open_boxed_pictures, open_without_boxes
from edgemeta.toolchain.data.boxes.pictures import BoxedPicture, BoxedPictures, held_out_pictures
from edgemeta.toolchain.errors import DataError
from edgemeta.toolchain.evaluate.average_precision import Precision
from edgemeta.toolchain.progress import ProgressCallback, Reporter
from edgemeta.toolchain.train.boxes.card import read_licences, save_card
from edgemeta.toolchain.train.requirements import require_torch
from edgemeta.toolchain.train.run_folder import VALIDATION, opened_run
from edgemeta.toolchain.train.start import ENTRY

if TYPE_CHECKING:
    from edgemeta.toolchain.torch_network import TorchNetwork
    from edgemeta.toolchain.train.boxes.network import GridDesign
    from edgemeta.toolchain.train.boxes.recipe import BoxRecipe
    from edgemeta.toolchain.train.loop import Trained

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class BoxWishes:
    """What a user wants.

    size: height and width of the input in pixels, multiples of 32; None: those of `start`, or 320 each. width: factor
    on all channels. device: "cpu" or "cuda", which computes all epochs but those at 8 bits. epochs: None: those of the
    recipe. start: model of `train --task detection`, float or integer, whose weights are the first ones. teacher: float
    model of a detection that teaches as well. unlabelled: folders of pictures that only the teacher labels. without:
    sources of the data that are left out. licences: YAML file with the licence of each source.
    """

    size: tuple[int, int] | None = None
    width: float = 1.0
    device: str = "cpu"
    epochs: int | None = None
    quantized_epochs: int | None = None
    start: Path | None = None
    teacher: Path | None = None
    unlabelled: Sequence[Path] = ()
    empty: Sequence[Path] = ()
    without: Sequence[str] = ()
    licences: Path | None = None


@dataclass(frozen=True)
class BoxResult:
    """Result of `train_boxes`.

    path: the float model file; card: its model card. epochs: of the training; epoch: the exported one, from 1.
    validation, test: precision of both parts; test is None without test pictures. held_out: file with the part that
    chose the epoch. page: the report.
    """

    path: Path
    card: Path
    epochs: int
    epoch: int
    validation: Precision
    test: Precision | None
    held_out: Path
    page: Path

    @property
    def measured(self) -> Precision:
        """That of the test pictures, or of the validation part without."""
        return self.validation if self.test is None else self.test


def train_boxes(
    data: Path,
    folder: Path,
    out: Path,
    wishes: BoxWishes,
    rounded: "Callable[[TorchNetwork], TorchNetwork]",
    *,
    held_out: Path | None = None,
    test: Path | None = None,
    name: str | None = None,
    fresh: bool = False,
    threads: int | None = None,
    progress: ProgressCallback | None = None,
    report: Report = _log.warning,
    recipe: "BoxRecipe | None" = None,
) -> BoxResult:
    """Train a detector on pictures with boxes, or continue the run in `folder`, and write the float model to `out`.

    data: a data set (`open_boxed_pictures`). rounded: makes a network compute in 8 bits. held_out: a data set that
    chooses the best epoch; None: a fixed part of `data`. test: one that is only measured, at the end. name: of the
    model; None: that of the network and the data. fresh: delete the run in the folder before. report: called with one
    sentence for what is deleted. recipe: None: that of the command. Raises a ToolchainError, which is MissingExtraError
    without PyTorch.
    """
    require_torch()
    import torch

    from edgemeta.toolchain.train.boxes.network import GridDesign
    from edgemeta.toolchain.train.boxes.recipe import BoxRecipe

    if wishes.device == "cuda" and not torch.cuda.is_available():
        raise DataError("this PyTorch finds no CUDA device, expected one for --device cuda")
    if threads is not None:
        torch.set_num_threads(threads)
    recipe = recipe or BoxRecipe()
    recipe = recipe if wishes.epochs is None else replace(recipe, epochs=wishes.epochs)
    if wishes.quantized_epochs is not None:
        recipe = replace(recipe, quantized_epochs=wishes.quantized_epochs)
    licences = {} if wishes.licences is None else read_licences(wishes.licences)
    parts = _parts(data, held_out, test, wishes, recipe)
    with opened_run(folder, fresh, report):
        run = _Run(recipe, GridDesign(_size(wishes), wishes.width), parts, wishes, folder)
        trained = run.train(Reporter(folder / "log.jsonl", progress), rounded)
        return run.export(trained, name or f"{run.design.name}-{data.stem}", licences, out)


def _size(wishes: BoxWishes) -> tuple[int, int]:
    """Height and width of the input: those wanted, or of the network to start from, or the design's own."""
    from edgemeta.toolchain.train.boxes.network import STRIDES, GridDesign
    from edgemeta.toolchain.train.boxes.start import read_start

    if wishes.size is not None or wishes.start is None:
        return wishes.size or GridDesign.size
    start = read_start(str(wishes.start))
    height, width, _ = start.input_shape if isinstance(start, FloatModel) else start.input.shape
    is_of_ours = height % STRIDES[-1] == width % STRIDES[-1] == 0  # the weights of others are refused later
    return (height, width) if is_of_ours else GridDesign.size


@dataclass(frozen=True, eq=False)
class _Parts:
    """Pictures: of the training, of the part that chooses the epoch, and of the test."""

    training: BoxedPictures
    unlabelled: BoxedPictures
    validation: BoxedPictures
    test: BoxedPictures | None

    def sources(self) -> dict[str, int]:
        """How many pictures of the training come from each source."""
        named = Counter(each.source for each in self.training.pictures)
        return dict(sorted((named + self._taught()).items()))

    def _taught(self) -> Counter[str]:
        return Counter(each.source for each in self.unlabelled.pictures)


def _parts(data: Path, held_out: Path | None, test: Path | None, wishes: BoxWishes, recipe: "BoxRecipe") -> _Parts:
    """Raises DataError."""
    if wishes.unlabelled and wishes.teacher is None:
        raise DataError(f"{wishes.unlabelled[0]}: has pictures without boxes, expected a teacher that labels them")
    whole = open_boxed_pictures(data)
    sources = sorted({each.source for each in whole.pictures} - {""})
    for source in wishes.without:
        if source not in sources:
            raise DataError(f"{data}: has no source {source!r} to leave out, expected {', '.join(sources) or 'none'}")
    given = whole.without(wishes.without)
    if held_out is None:
        training, validation = held_out_pictures(given, recipe.validation, recipe.seed, data)
    else:
        training, validation = given, _numbered(held_out, given.labels, wishes)
    tested = None if test is None else _numbered(test, given.labels, wishes)

    def without_boxes(folders: Sequence[Path], empty: bool) -> tuple[BoxedPicture, ...]:
        opened = [open_without_boxes(folder, given.labels, empty=empty) for folder in folders]
        return tuple(picture for each in opened for picture in each.pictures)

    training = BoxedPictures(given.labels, training.pictures + without_boxes(wishes.empty, True))
    return _Parts(training, BoxedPictures(given.labels, without_boxes(wishes.unlabelled, False)), validation, tested)


def _numbered(path: Path, labels: tuple[str, ...], wishes: BoxWishes) -> BoxedPictures:
    return open_boxed_pictures(path).numbered_by(labels, path).without(wishes.without)


@dataclass(frozen=True, eq=False)
class _Run:
    """A training with everything that decides its steps."""

    recipe: "BoxRecipe"
    design: "GridDesign"
    parts: _Parts
    wishes: BoxWishes
    folder: Path
    measured: dict[str, BoxedImages] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of all but the data that decides the steps in float."""
        return self.recipe.digest(self.design, _digest(self.wishes.start), _digest(self.wishes.teacher))

    def train(self, reporter: Reporter, rounded: "Callable[[TorchNetwork], TorchNetwork]") -> "Trained[TorchNetwork]":
        """Train, or continue."""
        import torch

        from edgemeta.toolchain.train.boxes.network import grid_network
        from edgemeta.toolchain.train.boxes.run import BoxRun
        from edgemeta.toolchain.train.boxes.start import load_start
        from edgemeta.toolchain.train.boxes.teacher import BoxTeacher
        from edgemeta.toolchain.train.boxes.views import FILL
        from edgemeta.toolchain.train.checkpoint import RunIdentity

        labels, side = self.parts.training.labels, round(self.recipe.margin * max(self.design.size))
        training = BoxedPictures(labels, self.parts.training.pictures + self.parts.unlabelled.pictures).read(side)
        validation = self.parts.validation.read(side).letterboxed(self.design.size, FILL)
        self.measured["validation"] = validation
        if self.parts.test is not None:
            self.measured["test"] = self.parts.test.read(side).letterboxed(self.design.size, FILL)
        torch.manual_seed(self.recipe.seed)
        network = grid_network(self.design, labels)
        if self.wishes.start is not None:
            load_start(network, str(self.wishes.start), training)
        teacher = None if self.wishes.teacher is None else BoxTeacher(self.wishes.teacher, labels, self.wishes.device)
        identity = RunIdentity(self.digest, f"{training.sha256} {validation.sha256()}")
        fixed = self.recipe, training, validation, teacher, self.folder, identity, reporter, rounded
        return BoxRun(*fixed, device=self.wishes.device).train(network)

    def export(self, trained: "Trained[TorchNetwork]", name: str, licences: Mapping[str, str], out: Path) -> BoxResult:
        """Write the float model that says what it was made of, its card and the report."""
        import torch

        from edgemeta.toolchain.train.boxes.report import save_report
        from edgemeta.toolchain.train.boxes.run import WatchedBoxes
        from edgemeta.toolchain.train.boxes.start import read_start
        from edgemeta.toolchain.train.boxes.views import FILL

        provenance: dict[str, object] = {
            ENTRY: {"family": "grids", **asdict(self.design)},
            "recipe_sha256": self.digest,
            "epochs": self.recipe.epochs,
            "quantized_epochs": self.recipe.quantized_epochs,
            "best_epoch": trained.epoch,
            "torch": torch.__version__,
            "train_images": len(self.parts.training),
            "unlabelled_images": len(self.parts.unlabelled),
            "sources": self.parts.sources(),
            "left_out": list(self.wishes.without),
        }
        for part in ("start", "teacher"):
            path = getattr(self.wishes, part)
            if path is not None:
                provenance[part] = {"name": read_start(str(path)).name, "sha256": _digest(path)}
        model = trained.network.written(name=name, provenance=provenance, crop="letterbox", fill=(FILL,))
        figures, found = {}, {}
        for part, images in self.measured.items():
            watched = WatchedBoxes(trained.network, images)
            found[part] = watched.found(trained.network)
            figures[part] = watched.judge(found[part])
            provenance |= {f"{part}_images": len(images), f"{part}_sha256": images.sha256()}
            provenance |= {f"{part}_map50": figures[part].at_half, f"{part}_map": figures[part].mean}
        model = replace(model, provenance=provenance)
        save_float_model(model, out)
        kept = self.folder / VALIDATION
        save_boxed_images(self.measured["validation"], kept)
        last = "test" if "test" in figures else "validation"
        page = save_report(self.folder, name, figures[last], found[last], self.measured[last])
        card = out.with_suffix(".md")
        save_card(card, model, figures, licences)
        return BoxResult(
            path=out,
            card=card,
            epochs=self.recipe.epochs + self.recipe.quantized_epochs,
            epoch=trained.epoch,
            validation=figures["validation"],
            test=figures.get("test"),
            held_out=kept,
            page=page,
        )


def _digest(path: Path | None) -> str | None:
    """SHA-256 (hex) of a model file."""
    return None if path is None else hashlib.sha256(find(str(path)).read_bytes()).hexdigest()
