"""Which network is trained: its family, depth, width, classes and size. Without PyTorch."""

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, get_args

from edgemeta.toolchain.errors import RecipeError

Family: TypeAlias = Literal["resnet", "mobilenetv2", "vgg16", "alexnet"]
FAMILIES: tuple[Family, ...] = get_args(Family)

DEPTHS = (8, 14, 20)
"""Depths of a residual network: one, two or three blocks in each of its three stages."""
MIN_SIZE, MAX_SIZE = 24, 224
"""Sides of the square input, in pixels."""
MIN_WIDTH, MAX_WIDTH = 0.125, 8.0
"""Factors on the number of channels."""


@dataclass(frozen=True)
class Design:
    """Which network: its family, classes and size.

    size: side of the square input in pixels, MIN_SIZE..MAX_SIZE. depth: of a residual network, one of DEPTHS (ignored
    for others). width: factor on all channels, MIN_WIDTH..MAX_WIDTH; at 1 a residual network has 16, 32 and 64.
    """

    classes: int = 10
    size: int = 32
    family: Family = "resnet"
    depth: int = 8
    width: float = 1.0

    def __post_init__(self) -> None:
        if self.family not in FAMILIES:
            raise RecipeError(f"network is {self.family!r}, expected one of {', '.join(FAMILIES)}")
        if not MIN_SIZE <= self.size <= MAX_SIZE:
            raise RecipeError(f"size is {self.size}, expected {MIN_SIZE} to {MAX_SIZE} pixels")
        if self.family == "resnet" and self.depth not in DEPTHS:
            raise RecipeError(f"depth is {self.depth}, expected one of {', '.join(map(str, DEPTHS))}")
        if not MIN_WIDTH <= self.width <= MAX_WIDTH:
            raise RecipeError(f"width is {self.width:g}, expected {MIN_WIDTH:g} to {MAX_WIDTH:g}")
        if self.classes < 2:
            raise RecipeError(f"there are {self.classes} classes, expected at least 2")

    @property
    def name(self) -> str:
        """Name for files and messages, such as "resnet14" or "mobilenetv2-w0.35"."""
        depth = str(self.depth) if self.family == "resnet" else ""
        width = "" if self.width == 1 else f"-w{self.width:g}"
        return f"{self.family}{depth}{width}"


@dataclass(frozen=True)
class Wishes:
    """What a user wants of a network; None: as the network to start from has it, or the default."""

    family: Family | None = None
    depth: int | None = None
    width: float | None = None
    size: int | None = None

    def design(self, size: int, classes: int, start: Design | None) -> Design:
        """The network for images of this size. Raises RecipeError if it differs from the one to start from."""
        first = start or _DEFAULTS[self.family or "resnet"]
        values = {key: getattr(self, key) for key in ("family", "depth", "width") if getattr(self, key) is not None}
        for key, value in values.items() if start else ():
            if value != getattr(start, key):
                raise RecipeError(
                    f"{key} is {value}, expected {getattr(start, key)}, which the weights to start from have"
                )
        design = replace(first, **values, size=size, classes=classes)
        if self.depth is not None and design.family != "resnet":
            raise RecipeError(f"depth is {self.depth}, expected none for {design.family}, whose depth is fixed")
        return design


RESNET = Design(family="resnet", depth=14, width=3.0, size=96)
MOBILENET = Design(family="mobilenetv2", width=0.5, size=96)
VGG = Design(family="vgg16", width=0.25, size=96)
ALEXNET = Design(family="alexnet", width=0.25, size=96)
"""What is trained on own pictures where nothing else is wanted."""

_DEFAULTS = {"resnet": RESNET, "mobilenetv2": MOBILENET, "vgg16": VGG, "alexnet": ALEXNET}
