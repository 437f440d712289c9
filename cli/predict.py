"""`predict`: what a model says about image files; `classify` is its other name."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from copy import copy
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import click
import numpy as np
from numpy.typing import NDArray

from edgemeta.cli.image_folders import FolderAgreement, image_files
from edgemeta.cli.options import backend_options, load_model, model_argument, open_session
from edgemeta.cli.progress import progress_bar
from edgemeta.model.errors import FrameError
from edgemeta.model.graph import Model
from edgemeta.model.preprocess import placement
from edgemeta.model.tasks import (
    MAX_SCORE,
    MIN_SCORE,
    Classification,
    Detection,
    Embedding,
    Keypoints,
    MultiLabel,
    ObjectMasks,
    ObjectPoints,
    Raw,
    Segmentation,
)
from edgemeta.plugins.api import Session
from edgemeta.plugins.pictures import read_checked_picture
from edgemeta.plugins.preprocess import make_preprocessor
from edgemeta.tasks.detection.objects import Object
from edgemeta.tasks.keypoints import Keypoint, points_in_frame
from edgemeta.tasks.results import Result, reader
from edgemeta.tasks.segmentation import in_picture
from edgemeta.tasks.tiles import in_frame

_MANY = 10
"""From so many images on there is a progress bar."""
_SHAPES = 8
"""Frame shapes whose preprocessors are kept."""
_MAKES: Mapping[type, str] = {
    Embedding: "makes an embedding",
    Segmentation: "gives shares of the image",
    Keypoints: "gives keypoints",
    Raw: "gives raw outputs",
}
_TOP = 3
"""Labels of a classification, unless `--top` says otherwise."""


@click.command(short_help="What a model says about image files.")
@model_argument
@click.argument("images", nargs=-1, required=True, metavar="IMAGE...", type=click.Path())
@click.option(
    "--top",
    type=click.IntRange(min=1),
    help=f"Most labels or objects of an image.  [default: {_TOP} labels of a classification, otherwise all]",
)
@click.option(
    "--threshold",
    type=click.FloatRange(MIN_SCORE, MAX_SCORE),
    help="Least score of a label or an object.  [default: the model's own; none for a classification]",
)
@click.option(
    "--no-reject",
    is_flag=True,
    help="Name every image of a classification, also those that the model's rule of rejection calls unknown.",
)
@backend_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object for each image, on a line of its own.")
def predict(
    model_name: str,
    images: tuple[str, ...],
    top: int | None,
    threshold: float | None,
    no_reject: bool,
    backend: str,
    threads: int | None,
    isa: str | None,
    as_json: bool,
) -> None:
    """Print what a model says about each IMAGE: labels with scores, objects with boxes in its pixels, or numbers.

    IMAGE may be a folder: its images are taken, with those of its sub-folders. If its folders have names of labels, the
    last line is the share of images that get the label of their folder (with --json on standard error).

    An image that a model's rule of rejection gives no label is unknown. An image that cannot be read is one sentence
    on standard error; the others get their answers, and the exit status is 1 at the end.

    \b
    Examples:
      edgemeta predict resnet8-cifar10 cat.jpg ship.png
      edgemeta predict ./yolox.safetensors street/ --threshold 0.5
      edgemeta predict ./yolox.safetensors street/ --json > objects.jsonl
    """
    model = load_model(model_name)
    if isinstance(model.task, Embedding | Segmentation | Keypoints | Raw) and (
        top is not None or threshold is not None
    ):
        made = _MAKES[type(model.task)]
        raise click.UsageError(f"--top and --threshold are for labels and objects, {model_name} {made}")
    if no_reject and isinstance(model.task, Classification):
        model = replace(model, task=replace(model.task, rejection=None))
    files = list(image_files(images))
    agreement = FolderAgreement(model, images)
    failed = False
    with closing(open_session(model, backend, threads, isa)[1]) as session:
        predictor, printer = _Predictor(model, session, top, threshold), _Printer(model, as_json=as_json)
        shows_bar = len(files) >= _MANY and sys.stderr.isatty() and not sys.stdout.isatty()
        with progress_bar("predict", wanted=shows_bar) as progress:
            for done, file in enumerate(files, 1):
                try:
                    pixels, complaint = read_checked_picture(Path(_named(file)))
                except FrameError as error:
                    failed = True
                    _say(str(error), on_new_line=shows_bar)
                else:
                    if complaint is not None:
                        _say(f"image {file}: {complaint}", on_new_line=shows_bar)
                    result = predictor.result(pixels)
                    agreement.add(Path(str(file)), result)
                    printer.print(str(file), predictor.shown(result))
                progress(done, len(files))
    if (line := agreement.line) is not None:
        click.echo(line, err=as_json)
    if failed:
        sys.exit(1)


classify = copy(predict)
classify.name = "classify"
classify.short_help = "The other name of `predict`."
classify.help = (predict.help or "").replace("edgemeta predict", "edgemeta classify")


class _Predictor:
    """A model on a backend, asked about one image file after the other. top, threshold: as the options."""

    def __init__(self, model: Model, session: Session, top: int | None, threshold: float | None) -> None:
        if threshold is not None and isinstance(model.task, Detection | MultiLabel):
            model = replace(model, task=replace(model.task, score_threshold=threshold))
        is_ranked = not isinstance(model.task, Detection | MultiLabel | Segmentation)
        self._top = _TOP if top is None and is_ranked else top
        self._threshold = threshold or 0.0
        self._model, self._session = model, session
        self._read = reader(model, max(1, len(model.labels)))
        self._preprocessor = lru_cache(_SHAPES)(lambda shape: make_preprocessor(model, shape))

    def result(self, pixels: NDArray[np.uint8]) -> Result:
        """All that the model says; objects with boxes in pixels of the image."""
        outputs = self._session.run(self._preprocessor(pixels.shape)(pixels))
        result = self._read([output[0] for output in outputs])
        place = placement(self._model.preprocessing, self._model.input, pixels.shape)
        if result.cells is not None:
            segments = in_picture(result.cells, self._model.input.shape[:2], place)
            return replace(result, labels=segments.ranked(self._model.labels))
        points = points_in_frame(result.points, place)
        return replace(result, objects=in_frame(result.objects, place), points=points)

    def shown(self, result: Result) -> Result:
        """What of a result the options let through."""
        labels = [(label, score) for label, score in result.labels if score >= self._threshold]
        return replace(result, labels=tuple(labels[: self._top]), objects=result.objects[: self._top])


class _Printer:
    """Prints results: as JSON, a line for each image, or as a table, whose head comes with the first one."""

    def __init__(self, model: Model, *, as_json: bool) -> None:
        self._model, self._as_json = model, as_json
        self._has_head = as_json

    def print(self, file: str, result: Result) -> None:
        if not self._has_head:
            click.echo(_row("image", *_heads(self._model)))
            self._has_head = True
        for line in [_json(file, self._model, result)] if self._as_json else _table(file, self._model, result):
            click.echo(line)


def _named(file: str | FrameError) -> str:
    """The file. Raises the FrameError that stands in its place."""
    if isinstance(file, FrameError):
        raise file
    return file


def _say(sentence: str, *, on_new_line: bool) -> None:
    """One line on standard error, below a progress bar if there is one."""
    click.echo(f"{chr(10) * on_new_line}edgemeta: {_printable(sentence)}", err=True)


def _json(file: str, model: Model, result: Result) -> str:
    entry: dict[str, object] = {"image": file}
    match model.task:
        case Detection():
            entry["objects"] = [_object(model.task, each) for each in result.objects]
        case Embedding():
            entry["embedding"] = [round(number, 6) for number in result.embedding]
        case Keypoints():
            entry["keypoints"] = _points(result.points)
        case Raw():
            entry["outputs"] = {each.name: {"shape": each.shape, "values": each.values} for each in result.numbers}
        case _:
            entry["labels"] = [{"label": label, "score": round(score, 6)} for label, score in result.labels]
            if isinstance(model.task, Classification):
                entry["unknown"] = result.unknown
    return json.dumps(entry)


def _object(task: Detection, found: Object) -> dict[str, object]:
    """An object, with its points or its outline where the model gives them."""
    box = {"label": found.label, "score": round(found.score, 6), "box": [round(side, 2) for side in found.box]}
    match task.extras:
        case ObjectPoints():
            return {**box, "keypoints": _points(found.keypoints)}
        case ObjectMasks():
            return {**box, "outline": [[round(x, 2), round(y, 2)] for x, y in found.outline]}
        case None:
            return box


def _points(points: Sequence[Keypoint]) -> list[dict[str, object]]:
    return [
        {
            "name": each.name,
            "point": [round(each.x, 2), round(each.y, 2)],
            "score": None if each.score is None else round(each.score, 6),
        }
        for each in points
    ]


def _heads(model: Model) -> tuple[str, ...]:
    """What stands above the columns after the first."""
    match model.task:
        case Detection():
            return "label", "score", "x0", "y0", "x1", "y1"
        case Embedding():
            return ("embedding",)
        case Keypoints():
            return "point", "x", "y"
        case Raw():
            return ("outputs",)
        case _:
            return "label", "score"


def _table(file: str, model: Model, result: Result) -> Iterator[str]:
    """A row for each label or object, and below it for each of its points; the image is named in the first."""
    rows: list[tuple[str, ...]] = [(label, f"{score:.1%}") for label, score in result.labels]
    for each in result.objects:
        rows.append((each.label, f"{each.score:.1%}", *(f"{side:.0f}" for side in each.box)))
        for name, x, y, score in each.keypoints:
            rows.append((f"· {name}", "" if score is None else f"{score:.1%}", f"{x:.0f}", f"{y:.0f}"))
    if isinstance(model.task, Embedding):
        rows = [(f"{len(result.embedding)} numbers: {_first([round(each, 3) for each in result.embedding])}",)]
    rows += [(point.name, f"{point.x:.0f}", f"{point.y:.0f}") for point in result.points]
    rows += [(f"{each.name} {_first(each.values)}",) for each in result.numbers]
    for number, row in enumerate(rows or [("unknown" if result.unknown else "none",)]):
        name = "" if number else file
        yield _row(name, *row, boxes=isinstance(model.task, Detection | Keypoints))


def _first(numbers: Sequence[float]) -> str:
    """The first three numbers, to three significant digits."""
    return " ".join(f"{number:.3g}" for number in numbers[:3]) + " …" * (len(numbers) > 3)


def _row(image: str, *cells: str, boxes: bool | None = None) -> str:
    """At most 80 columns: an image, a label, a score, four sides of a box."""
    has_box = len(cells) > 2 if boxes is None else boxes
    image_width, label_width = (26, 20) if has_box else (36, 34)
    label, *numbers = cells
    widths = (7, 6, 6, 6, 6)
    text = f"{_cut(image, image_width, from_left=True)}  {_cut(label, label_width)}" + "".join(
        f" {number:>{width - 1}}" for number, width in zip(numbers, widths, strict=False)
    )
    return text.rstrip()


def _cut(text: str, width: int, *, from_left: bool = False) -> str:
    """Printable text of exactly this width; what is too long loses its beginning or its end."""
    text = _printable(text)
    if len(text) > width:
        text = f"…{text[1 - width :]}" if from_left else f"{text[: width - 1]}…"
    return text.ljust(width)


def _printable(text: str) -> str:
    """Text that any terminal takes: a file's name need not be text."""
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)
