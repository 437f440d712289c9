"""The stages of a quantization in their order, with their work, for an estimate of the time that is left."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from edgemeta.toolchain.float_model.graph import FloatModel
from edgemeta.toolchain.quantize.blocks import blocks_of
from edgemeta.toolchain.quantize.equalize import EQUALIZATIONS, can_equalize
from edgemeta.toolchain.quantize.feedback import MOMENT_IMAGES

StageName = Literal[
    "images",
    "float network",
    "ranges",
    "trying",
    "rounding",
    "biases",
    "layers",
    "validation images",
    "held-out images",
    "test images",
]


@dataclass(frozen=True)
class Stage:
    """A stage and its work, about 1 for a run of the float network on one image."""

    name: StageName
    work: float


def stages_of_auto(model: FloatModel, images: int, rules: int) -> tuple[Stage, ...]:
    """The stages of scheme `auto` for so many calibration images and rules for ranges."""
    ranges, trying = Stage("ranges", 1.5 * images), Stage("trying", 0.1 * images)
    rounding = Stage("rounding", 3.0 * min(MOMENT_IMAGES, images))
    equalizations = len(EQUALIZATIONS) if can_equalize(model, [block.after for block in blocks_of(model)]) else 0
    return (
        Stage("images", 0.2 * images),
        Stage("float network", images),
        ranges,
        *[trying] * (rules + 1),
        *(rounding, trying),
        *(ranges, rounding, trying) * equalizations,
        *(Stage("biases", 0.5 * images), trying),
        Stage("layers", 8),
    )


def stages_of_binary(images: int) -> tuple[Stage, ...]:
    """The stages of scheme `binary` for so many calibration images."""
    return Stage("images", 0.2 * images), Stage("ranges", 1.5 * images)


def stages_of_incremental(images: int, validation: int) -> tuple[Stage, ...]:
    """The stages of scheme `incremental` after its retraining, for so many images for ranges and for measuring."""
    return Stage("images", 0.2 * images), Stage("ranges", 1.5 * images), Stage("validation images", 1.1 * validation)


def stages_of_measuring(held_out: int | None, test: int | None) -> tuple[Stage, ...]:
    """The stages after it, for so many labelled images, or None."""
    stages: Sequence[tuple[StageName, float, int | None]] = (
        ("held-out images", 0.1, held_out),
        ("test images", 1.1, test),
    )
    return tuple(Stage(name, work * images) for name, work, images in stages if images is not None)
