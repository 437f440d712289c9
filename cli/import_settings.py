"""Settings of `import`: what a YAML file beside the network or the options say."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import click
from pydantic import AfterValidator, BeforeValidator, Field, ValidationError

from edgemeta.daemon.config.error_text import expected, shown
from edgemeta.daemon.config.loader import ConfigFile
from edgemeta.daemon.config.section import Section
from edgemeta.model.graph import Align, Crop
from edgemeta.model.prove_preprocessing import COLOURS, is_colour
from edgemeta.model.small_file import why
from edgemeta.model.tasks import MAX_CANDIDATES, MAX_SCORE, MIN_SCORE, Decoding, PointLayout, PointUnit, TaskName
from edgemeta.toolchain.errors import ImportedFileError
from edgemeta.toolchain.importer.heads.coco import COCO
from edgemeta.toolchain.importer.heads.task_settings import TaskSettings

BESIDE = ".yaml"
"""The settings of net.onnx are in net.onnx.yaml, unless a file is named."""


def _numbers(value: object) -> object:
    """A number, a list of numbers, or text with commas between them."""
    parts: Any = value.split(",") if isinstance(value, str) else value if isinstance(value, list | tuple) else [value]
    try:
        return tuple(float(each) for each in parts if not isinstance(each, bool))
    except (TypeError, ValueError):
        raise ValueError("a number, or one for each channel, with commas between them") from None


def _bytes(value: object) -> object:
    try:
        numbers: Any = _numbers(value)
    except ValueError:
        numbers = ()
    if not numbers or not all(number in range(256) for number in numbers):
        raise ValueError("a whole number 0 .. 255, or one for each channel, with commas between them")
    return tuple(int(number) for number in numbers)


def _size(value: object) -> object:
    found = re.fullmatch(r"([1-9][0-9]{0,4})x([1-9][0-9]{0,4})", value) if isinstance(value, str) else None
    if found is None:
        raise ValueError("height x width, such as 224x224")
    return int(found[1]), int(found[2])


def _names(value: object) -> object:
    """A list, or text with commas between the names."""
    parts = [part.strip() for part in value.split(",")] if isinstance(value, str) else value
    if not isinstance(parts, list | tuple) or not all(isinstance(part, str) and part for part in parts):
        raise ValueError("names of tensors or points, with commas between them")
    return tuple(parts)


def _labels(value: object) -> object:
    is_list = isinstance(value, list | tuple) and all(isinstance(each, str) for each in value)
    if not is_list and not isinstance(value, str):
        raise ValueError("`coco`, the name of a file with one label on each line, or a list of labels")
    return value if isinstance(value, str) else tuple(value)  # type: ignore[arg-type]


def _anchors(value: object) -> object:
    """A list of levels, each a list of pairs, or text such as "10,14 23,27; 81,82 135,169"."""
    if isinstance(value, str):
        value = [[pair.split(",") for pair in level.split()] for level in value.split(";")]
    try:
        levels = tuple(tuple(_pair(each) for each in level) for level in value)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        levels = ()
    if not levels or not all(levels):
        raise ValueError("width,height of each anchor in pixels, with spaces between them and `;` between the grids")
    return levels


def _strides(value: object) -> object:
    """A list of numbers or pairs, or text such as "8 16 32"."""
    parts: Any = value.split() if isinstance(value, str) else value
    try:
        return tuple(_pair(each) if isinstance(each, list | tuple) else _pair((each, each)) for each in parts)
    except (TypeError, ValueError):
        raise ValueError("pixels from one cell to the next, of each grid, with spaces between them") from None


def _pair(value: Any) -> tuple[float, float]:
    first, second = value
    return float(first), float(second)


Score = Annotated[float, Field(ge=MIN_SCORE, le=MAX_SCORE, allow_inf_nan=False)]


def _colour(value: str) -> str:
    if not is_colour(value):
        raise ValueError(COLOURS)
    return value


class ImportSettings(Section):
    """Everything may be left out."""

    name: str | None = None
    size: Annotated[tuple[int, int] | None, BeforeValidator(_size)] = None
    crop: Crop | None = None
    align: Align | None = None
    fill: Annotated[tuple[int, ...] | None, BeforeValidator(_bytes)] = None
    colour: Annotated[str, AfterValidator(_colour)] | None = None
    mean: Annotated[tuple[float, ...] | None, BeforeValidator(_numbers)] = None
    std: Annotated[tuple[float, ...] | None, BeforeValidator(_numbers)] = None
    task: TaskName | None = None
    labels: Annotated[str | tuple[str, ...] | None, BeforeValidator(_labels)] = None
    outputs: Annotated[tuple[str, ...] | None, BeforeValidator(_names)] = None
    decoding: Decoding | None = None
    anchors: Annotated[tuple[tuple[tuple[float, float], ...], ...] | None, BeforeValidator(_anchors)] = None
    strides: Annotated[tuple[tuple[float, float], ...] | None, BeforeValidator(_strides)] = None
    box_order: Literal["xywh", "yxhw"] | None = None
    point_layout: PointLayout | None = None
    point_unit: PointUnit | None = None
    point_names: Annotated[tuple[str, ...] | None, BeforeValidator(_names)] = None
    score_threshold: Score | None = None
    overlap_threshold: Annotated[float, Field(gt=0, lt=1)] | None = None
    max_objects: Annotated[int, Field(ge=1, le=MAX_CANDIDATES)] | None = None

    def pixels(self) -> dict[str, Any]:
        """What is given of how a frame becomes what the network takes: fields of `Pixels`."""
        return self._given("crop", "align", "fill", "colour", "mean", deviation="std")

    def task_settings(self) -> TaskSettings:
        """What the outputs mean."""
        names = ("task", "outputs", "decoding", "anchors", "strides", "box_order")
        points = ("point_layout", "point_unit", "point_names")
        limits = ("score_threshold", "overlap_threshold", "max_objects")
        labels = None if self.labels is None else labels_of(self.labels)
        return TaskSettings(labels=labels, **self._given(*names, *points, *limits))

    def _given(self, *names: str, **renamed: str) -> dict[str, Any]:
        keys = {**{name: name for name in names}, **renamed}
        values = {key: getattr(self, name) for key, name in keys.items()}
        return {key: value for key, value in values.items() if value is not None}


def read_settings(network: Path, file: Path | None, options: Mapping[str, object]) -> ImportSettings:
    """The settings of a file, which is that beside the network if none is named, with those options that are given.

    Raises ConfigError with every mistake of the file and its line, click.BadParameter for an option.
    """
    given = _validated({name: value for name, value in options.items() if value is not None})
    beside = network.with_name(network.name + BESIDE)
    path = file or (beside if beside.is_file() else None)
    if path is None:
        return given
    settings_file = ConfigFile(path, ImportSettings)
    settings, problems = settings_file.validate()
    if settings is None or problems:
        raise settings_file.error(problems)
    if isinstance(settings.labels, str) and settings.labels != "coco":
        settings = settings.model_copy(update={"labels": str(path.parent / settings.labels)})
    return settings.model_copy(update={name: getattr(given, name) for name in given.model_fields_set})


def _validated(options: Mapping[str, object]) -> ImportSettings:
    try:
        return ImportSettings.model_validate(options)
    except ValidationError as error:
        detail = error.errors(include_url=False)[0]
        option = f"--{str(detail['loc'][0]).replace('_', '-')}"
        found = shown(detail["input"])
        raise click.BadParameter(f"found {found}, expected {expected(detail)}", param_hint=option) from None


def labels_of(given: str | tuple[str, ...]) -> tuple[str, ...]:
    """Labels by name, of a file, or as they are. Raises ImportedFileError."""
    if not isinstance(given, str):
        return given
    if given == "coco":
        return COCO
    try:
        text = Path(given).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ImportedFileError(f"{given}: the labels cannot be read: {why(error)}") from None
    return tuple(line.strip() for line in text.splitlines() if line.strip())
