"""Training recipes: a small YAML file with the parameters of a training run."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, TypeAlias, cast

from pydantic import ConfigDict, Field

from edgemeta.model.yaml_file import Source, checked, read_entries
from edgemeta.toolchain.errors import RecipeError
from edgemeta.toolchain.train.designs import Design, Family

SIZE = 32
"""Side of the images that a recipe trains with, in pixels."""

ENTRIES = ConfigDict(extra="forbid")
"""Of all recipes: no unknown entries."""

Count: TypeAlias = Annotated[int, Field(strict=True, ge=1)]
Number: TypeAlias = Annotated[int, Field(strict=True, ge=0)]
Real: TypeAlias = Annotated[float, Field(strict=True, ge=0, lt=1 << 53)]
Above0: TypeAlias = Annotated[float, Field(strict=True, gt=0, lt=1 << 53)]
Share: TypeAlias = Annotated[float, Field(strict=True, ge=0, le=1)]
HeldOut: TypeAlias = Annotated[float, Field(strict=True, ge=0, le=0.5)]
Pixels: TypeAlias = Annotated[int, Field(strict=True, ge=0, le=16)]
Names: TypeAlias = tuple[str, ...]
Widths: TypeAlias = Annotated[tuple[Count, ...], Field(min_length=1)]


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

    __pydantic_config__ = ENTRIES

    count: Number = 2
    epochs: Count = 11
    batch: Count = 256
    widths: Widths = (64, 256, 256)
    lr: Above0 = 0.4
    lr_start: Real = 0.2
    lr_end: Real = 0.05
    warmup: Share = 0.2
    momentum: Share = 0.85
    weight_decay: Real = 0.0013
    bias_lr: Real = 64.0
    pad: Pixels = 3
    views: Number = 4


@dataclass(frozen=True)
class StudentRecipe:
    """Distillation of the student, with new random views in every epoch.

    lr: peak learning rate, reached linearly after `warmup_epochs`, then cosine to zero. pad: greatest shift of a crop
    in pixels. temperature T and hard_weight h: loss = (1 - h) T^2 KL(teacher/T || student/T) + h CE(label). ema: decay
    per step of the moving average of the weights, which is exported. blended: share of each batch whose images, with
    their labels, are blended with another one of them (`blend`, with blend_strength), before the teachers see them.
    """

    __pydantic_config__ = ENTRIES

    epochs: Count = 150
    batch: Count = 128
    lr: Above0 = 0.2
    warmup_epochs: Real = 3.0
    momentum: Share = 0.9
    weight_decay: Real = 2e-4
    pad: Pixels = 4
    temperature: Above0 = 3.0
    hard_weight: Share = 0.1
    blended: Share = 0.0
    blend_strength: Above0 = 1.0
    ema: Share = 0.999
    evaluate_every: Count = 10


@dataclass(frozen=True)
class ContinuationRecipe:
    """Continuations of the finished student, each with other random numbers; the result is the mean of their weights.

    count: number of continuations; 0: the result is the student. lr: peak learning rate, reached linearly after
    `warmup_epochs`, then cosine to zero. All else is as in the student's recipe.
    """

    __pydantic_config__ = ENTRIES

    count: Number = 0
    epochs: Count = 30
    lr: Above0 = 0.05
    warmup_epochs: Real = 1.0


@dataclass(frozen=True)
class NetworkRecipe:
    """Which network the student is. depth: of a residual network, ignored for others. width: factor on all channels."""

    __pydantic_config__ = ENTRIES

    family: str = "resnet"
    depth: Number = 8
    width: Real = 1.0


@dataclass(frozen=True)
class Recipe:
    """A complete recipe.

    alternate_share: probability of using the alternative (lossless) pixels of an image that has them. labels: names of
    the classes, for data that number them only; without them such data are refused. validation: share of the training
    images of each class that is held out and measured during the training; 0: the test images are.
    """

    __pydantic_config__ = ENTRIES

    name: str = "resnet8-cifar10"
    labels: Names = ()
    seed: Number = 1
    alternate_share: Share = 0.5
    validation: HeldOut = 0.0
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
    """Read a recipe file. Raises RecipeError with file, line and entry, what was found and what was expected."""
    return _recipe(*read_entries(path, "the recipe", RecipeError))


def recipe_from(entries: Mapping[str, Any], name: str) -> Recipe:
    """A recipe from a mapping, which messages call `name`. Raises RecipeError."""
    return _recipe(*read_entries(entries, name, RecipeError))


def _recipe(entries: object, source: Source) -> Recipe:
    recipe = checked(Recipe, entries, source, RecipeError)
    if recipe.teacher.count == 0 and recipe.student.hard_weight != 1:
        raise RecipeError(
            f"{source.at(('teacher', 'count'))}: teacher.count is 0 and student.hard_weight "
            f"{recipe.student.hard_weight:g}, expected 1: without teachers there are only the labels"
        )
    try:
        recipe.design(2)
    except RecipeError as error:
        raise RecipeError(f"{source.at(('network',))}: {error}") from error
    return recipe


def shipped_recipes() -> tuple[str, ...]:
    """Names of the shipped recipes, sorted."""
    folder = resources.files(__package__) / "recipes"
    return tuple(sorted(f.name.removesuffix(".yaml") for f in folder.iterdir() if f.name.endswith(".yaml")))


def find_recipe(name_or_path: str) -> Path:
    """Path of a shipped recipe or of a file. Raises RecipeError if there is neither."""
    if name_or_path in shipped_recipes():
        with resources.as_file(resources.files(__package__) / "recipes" / f"{name_or_path}.yaml") as path:
            return path
    path = Path(name_or_path)
    if not path.is_file():
        raise RecipeError(
            f"{name_or_path}: no such recipe, expected a file or a shipped name ({', '.join(shipped_recipes())})"
        )
    return path
