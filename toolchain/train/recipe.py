"""Training recipes: a small YAML file with the parameters of a training run, checked entry by entry."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, TypeVar, cast

import yaml

from edgemeta.toolchain.errors import RecipeError
from edgemeta.toolchain.train.designs import Design, Family

T = TypeVar("T")

SIZE = 32
"""Side of the images that a recipe trains with, in pixels."""

_AT_LEAST_1 = ("epochs", "batch", "evaluate_every")
_ABOVE_0 = ("lr", "temperature", "blend_strength")
_AT_MOST: dict[str, float] = {
    "alternate_share": 1,
    "hard_weight": 1,
    "blended": 1,
    "validation": 0.5,
    "ema": 1,
    "momentum": 1,
    "warmup": 1,
    "pad": 16,
}


@dataclass(frozen=True)
class TeacherRecipe:
    """Training of the teachers.

    count: number of teachers; teacher k has the seed of the recipe plus 100 k. With 0 the student learns from labels
    alone, and its hard_weight must be 1. lr: peak learning rate for the mean loss of a batch, reached after the share
    `warmup` of all steps starting from `lr_start` * lr, then decreasing linearly to `lr_end` * lr.
    bias_lr: factor on lr for the shifts of the batch norms. pad: greatest shift of a crop in pixels. views: number of
    augmented views of every training image that a teacher classifies after its training; the student's target is the
    mean of those logits over all views and teachers. With 0, the teachers classify the very view that the student sees,
    in every step; the target is the mean of their logits.
    """

    count: int = 2
    epochs: int = 11
    batch: int = 256
    widths: tuple[int, ...] = (64, 256, 256)
    lr: float = 0.4
    lr_start: float = 0.2
    lr_end: float = 0.05
    warmup: float = 0.2
    momentum: float = 0.85
    weight_decay: float = 0.0013
    bias_lr: float = 64.0
    pad: int = 3
    views: int = 4


@dataclass(frozen=True)
class StudentRecipe:
    """Distillation of the student, with new random views in every epoch.

    lr: peak learning rate, reached linearly after `warmup_epochs`, then cosine to zero. pad: greatest shift of a crop
    in pixels. temperature T and hard_weight h: loss = (1 - h) T^2 KL(teacher/T || student/T) + h CE(label). ema: decay
    per step of the moving average of the weights, which is exported. blended: share of each batch whose images, with
    their labels, are blended with another one of them (`blend`, with blend_strength), before the teachers see them.
    """

    epochs: int = 150
    batch: int = 128
    lr: float = 0.2
    warmup_epochs: float = 3.0
    momentum: float = 0.9
    weight_decay: float = 2e-4
    pad: int = 4
    temperature: float = 3.0
    hard_weight: float = 0.1
    blended: float = 0.0
    blend_strength: float = 1.0
    ema: float = 0.999
    evaluate_every: int = 10


@dataclass(frozen=True)
class ContinuationRecipe:
    """Continuations of the finished student, each with other random numbers; the result is the mean of their weights.

    count: number of continuations; 0: the result is the student. lr: peak learning rate, reached linearly after
    `warmup_epochs`, then cosine to zero. All else is as in the student's recipe.
    """

    count: int = 0
    epochs: int = 30
    lr: float = 0.05
    warmup_epochs: float = 1.0


@dataclass(frozen=True)
class NetworkRecipe:
    """Which network the student is. depth: of a residual network, ignored for others. width: factor on all channels."""

    family: str = "resnet"
    depth: int = 8
    width: float = 1.0


@dataclass(frozen=True)
class Recipe:
    """A complete recipe.

    alternate_share: probability of using the alternative (lossless) pixels of an image that has them. labels: names of
    the classes, for data that number them only; without them such data are refused. validation: share of the training
    images of each class that is held out and measured during the training; 0: the test images are.
    """

    name: str = "resnet8-cifar10"
    labels: tuple[str, ...] = ()
    seed: int = 1
    alternate_share: float = 0.5
    validation: float = 0.0
    network: NetworkRecipe = NetworkRecipe()
    teacher: TeacherRecipe = TeacherRecipe()
    student: StudentRecipe = StudentRecipe()
    continuation: ContinuationRecipe = ContinuationRecipe()

    def design(self, classes: int) -> Design:
        """The student, for so many classes. Raises RecipeError."""
        network = self.network
        return Design(classes, SIZE, cast("Family", network.family), network.depth, network.width)

    def digest(self, *parts: str) -> str:
        """SHA-256 (hex) of the named parts (default: all) with the seed and the shares of alternates and validation.

        The network counts where it is another than ResNet-8. A checkpoint can be continued only if its digest is equal.
        """
        whole = asdict(self)
        network = whole.pop("network")
        chosen = {p: whole[p] for p in (*parts, "seed", "alternate_share", "validation")} if parts else whole
        if self.network != NetworkRecipe():
            chosen = {**chosen, "network": network}
        return hashlib.sha256(json.dumps(chosen, sort_keys=True).encode()).hexdigest()


def load_recipe(path: Path) -> Recipe:
    """Read a recipe file. Raises RecipeError with file, entry, what was found and what was expected."""
    return recipe_from(read_recipe(path), str(path))


def read_recipe(path: Path) -> object:
    """What a recipe's file holds. Raises RecipeError."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RecipeError(f"{path}: the recipe cannot be read: {error}") from error
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        line = " ".join(str(error).split())
        raise RecipeError(f"{path}: not a YAML recipe: {line}") from error


def recipe_from(entries: object, source: str) -> Recipe:
    """A recipe from the mapping read from `source` (used in messages). Raises RecipeError."""
    parts: dict[str, type[Any]] = {
        "network": NetworkRecipe,
        "teacher": TeacherRecipe,
        "student": StudentRecipe,
        "continuation": ContinuationRecipe,
    }
    recipe = checked_recipe(Recipe, entries, parts, source)
    if recipe.teacher.count == 0 and recipe.student.hard_weight != 1:
        raise RecipeError(
            f"{source}: teacher.count is 0 and student.hard_weight {recipe.student.hard_weight:g}, expected 1: without "
            "teachers there are only the labels"
        )
    try:
        recipe.design(2)
    except RecipeError as error:
        raise RecipeError(f"{source}: {error}") from error
    return recipe


def checked_recipe(kind: type[T], entries: object, parts: Mapping[str, type[Any]], source: str) -> T:
    """A recipe of a kind, whose entries named in `parts` are mappings themselves. Raises RecipeError."""
    values = dict(_mapping(entries, source, ""))
    for part, kind_of_part in parts.items():
        if part in values:
            values[part] = _build(kind_of_part, _mapping(values[part], source, part), source, f"{part}.")
    return _build(kind, values, source, "")


def _mapping(value: object, source: str, key: str) -> dict[str, Any]:
    if not isinstance(value, dict) or not all(isinstance(k, str) for k in value):
        place = f"{key} is" if key else "the recipe is"
        raise RecipeError(f"{source}: {place} {_kind(value)}, expected a mapping of names to values")
    return value


def _build(kind: type[T], values: dict[str, Any], source: str, prefix: str) -> T:
    known = {f.name: f for f in fields(kind)}  # type: ignore[arg-type]
    for key in values:
        if key not in known:
            raise RecipeError(f"{source}: unknown entry {prefix}{key}, expected one of {', '.join(known)}")
    checked: dict[str, Any] = {}
    for key, value in values.items():
        checked[key] = _checked(known[key].default, value, f"{source}: {prefix}{key}")
        _check_bounds(f"{prefix}{key}", value, f"{source}: {prefix}{key}")
    return kind(**checked)


def _check_bounds(entry: str, value: Any, place: str) -> None:
    key = entry.rpartition(".")[2]
    if (key in _AT_LEAST_1 or entry in _AT_LEAST_1) and value < 1:
        raise RecipeError(f"{place} is {value}, expected at least 1")
    if key in _ABOVE_0 and value <= 0:
        raise RecipeError(f"{place} is {value}, expected more than 0")
    if key in _AT_MOST and value > _AT_MOST[key]:
        raise RecipeError(f"{place} is {value}, expected at most {_AT_MOST[key]}")


def _checked(default: object, value: object, place: str) -> object:
    if default == ():
        if not isinstance(value, list) or not value or not all(isinstance(v, str) for v in value):
            raise RecipeError(f"{place} is {value!r}, expected a list of names")
        return tuple(value)
    if isinstance(default, tuple):
        good = isinstance(value, list) and bool(value) and all(_positive_int(v) for v in value)
        if not good:
            raise RecipeError(f"{place} is {value!r}, expected a list of positive integers")
        assert isinstance(value, list)
        return tuple(value)
    if isinstance(default, int):
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise RecipeError(f"{place} is {value!r}, expected an integer that is not negative")
        return value
    if isinstance(default, float):
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not 0 <= value < 1 << 53:  # type: ignore[operator]
            raise RecipeError(f"{place} is {value!r}, expected a finite number that is not negative")
        return float(value)  # type: ignore[arg-type]
    if isinstance(default, str) and not isinstance(value, str):
        raise RecipeError(f"{place} is {value!r}, expected a string")
    return value


def _positive_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _kind(value: object) -> str:
    return "empty" if value is None else f"a {type(value).__name__}"
