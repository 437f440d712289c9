"""Recipe of a detector: a YAML file with the parameters of its training."""

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from edgemeta.toolchain.errors import RecipeError
from edgemeta.toolchain.train.designs import MAX_WIDTH, MIN_WIDTH
from edgemeta.toolchain.train.recipe import checked_recipe, read_recipe

FAMILY = "yolov3-tiny"
"""The network of every recipe of a detector."""


@dataclass(frozen=True)
class DetectorNetwork:
    """Which network. width: factor on all channels but those of the outputs."""

    family: str = FAMILY
    width: float = 0.5


@dataclass(frozen=True)
class DetectorRecipe:
    """A complete recipe. The images are mirrored by chance.

    validation: share of the training images that is held out and measured during the training; 0: the test images are.
    lr: peak learning rate, reached linearly after `warmup_epochs`, then cosine to zero. ema: decay per step of the
    moving average of the weights, which is exported.
    """

    name: str = "detector"
    seed: int = 1
    validation: float = 0.1
    network: DetectorNetwork = DetectorNetwork()
    epochs: int = 60
    batch: int = 32
    lr: float = 0.02
    warmup_epochs: float = 2.0
    momentum: float = 0.9
    weight_decay: float = 5e-4
    ema: float = 0.999
    evaluate_every: int = 5

    def digest(self) -> str:
        """SHA-256 (hex) of all entries: a checkpoint can be continued only if it is equal."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()


def is_detector_recipe(path: Path) -> bool:
    """Whether a recipe's file names a detector's network. Raises RecipeError if it cannot be read."""
    entries = read_recipe(path)
    network = entries.get("network") if isinstance(entries, dict) else None
    return isinstance(network, dict) and network.get("family") == FAMILY


def load_detector_recipe(path: Path) -> DetectorRecipe:
    """Read a recipe file. Raises RecipeError with file, entry, what was found and what was expected."""
    recipe = checked_recipe(DetectorRecipe, read_recipe(path), {"network": DetectorNetwork}, str(path))
    if recipe.network.family != FAMILY:
        raise RecipeError(f"{path}: network.family is {recipe.network.family!r}, expected {FAMILY}")
    if not MIN_WIDTH <= recipe.network.width <= MAX_WIDTH:
        raise RecipeError(f"{path}: network.width is {recipe.network.width:g}, expected {MIN_WIDTH:g} to {MAX_WIDTH:g}")
    return recipe
