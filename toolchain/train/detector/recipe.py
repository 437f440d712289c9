"""Recipe of a detector: a YAML file with the parameters of its training."""

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field

from edgemeta.model.yaml_file import checked, read_entries
from edgemeta.toolchain.errors import RecipeError
from edgemeta.toolchain.train.designs import MAX_WIDTH, MIN_WIDTH
from edgemeta.toolchain.train.recipe import ENTRIES, Above0, Count, HeldOut, Number, Real, Share

FAMILY: Final = "yolov3-tiny"
"""The network of every recipe of a detector."""


@dataclass(frozen=True)
class DetectorNetwork:
    """Which network. width: factor on all channels but those of the outputs."""

    __pydantic_config__ = ENTRIES

    family: Literal["yolov3-tiny"] = FAMILY
    width: Annotated[float, Field(strict=True, ge=MIN_WIDTH, le=MAX_WIDTH)] = 0.5


@dataclass(frozen=True)
class DetectorRecipe:
    """A complete recipe. The images are mirrored by chance.

    validation: share of the training images that is held out and measured during the training; 0: the test images are.
    lr: peak learning rate, reached linearly after `warmup_epochs`, then cosine to zero. ema: decay per step of the
    moving average of the weights, which is exported.
    """

    __pydantic_config__ = ENTRIES

    name: str = "detector"
    seed: Number = 1
    validation: HeldOut = 0.1
    network: DetectorNetwork = DetectorNetwork()
    epochs: Count = 60
    batch: Count = 32
    lr: Above0 = 0.02
    warmup_epochs: Real = 2.0
    momentum: Share = 0.9
    weight_decay: Real = 5e-4
    ema: Share = 0.999
    evaluate_every: Count = 5

    def digest(self) -> str:
        """SHA-256 (hex) of all entries: a checkpoint can be continued only if it is equal."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()


def is_detector_recipe(path: Path) -> bool:
    """Whether a recipe's file names a detector's network. Raises RecipeError if it cannot be read."""
    entries, _ = read_entries(path, "the recipe", RecipeError)
    network = entries.get("network") if isinstance(entries, dict) else None
    return isinstance(network, dict) and network.get("family") == FAMILY


def load_detector_recipe(path: Path) -> DetectorRecipe:
    """Read a recipe file. Raises RecipeError with file, line and entry, what was found and what was expected."""
    return checked(DetectorRecipe, *read_entries(path, "the recipe", RecipeError), RecipeError)
