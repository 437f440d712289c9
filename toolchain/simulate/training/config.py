"""The file of a simulated training: network, steps, and the rules of its number formats."""

import hashlib
import json
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, model_validator

from edgemeta.model.yaml_file import Source, checked, read_entries
from edgemeta.toolchain.errors import RecipeError, SimulateError
from edgemeta.toolchain.simulate.rules import RoundingRules, Rule, Rules
from edgemeta.toolchain.train.designs import Design, Family

Schedule = Literal["cosine", "linear", "constant"]
"""How the learning rate goes to zero after the warm-up."""

_CHECKPOINT = 2
"""Form of the checkpoints: in the first one the parameters of layers under rules had other names."""


class NetworkConfig(BaseModel):
    """The network, as `edgemeta train` has it. size: side of its input, pixels; None: that of the images."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    family: Family = "resnet"
    depth: int = 8
    width: float = 1.0
    size: int | None = None

    def design(self, size: int, classes: int) -> Design:
        """The network for images of this size. Raises RecipeError."""
        return Design(classes, size, self.family, self.depth, self.width)


class TrainingConfig(BaseModel):
    """A training under number formats.

    network: None: that of `start`, or ResNet-8. labels: names of the classes, for data that only number them. batch:
    images of a step, of all workers together. lr: peak learning rate of SGD with Nesterov momentum, for the mean loss
    of a batch, reached linearly after `warmup_epochs`. pad: greatest shift of a crop in pixels. loss_scale: factor on
    the loss in the backward pass. mixed_precision: whether layers compute in bfloat16 in training, where the processor
    has it; on another one it changes nothing. start: float model, a file or a shipped name, whose weights are the first
    ones. rules, rounding: as `prepare` reads them; without rules everything is float32. soft: weight of the loss
    against the logits of the float model `start` for the same views, at `softness` as temperature; the rest is that of
    the labels.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    network: NetworkConfig | None = None
    labels: tuple[str, ...] | None = None
    epochs: int = Field(ge=1)
    batch: int = Field(default=128, ge=1)
    lr: float = Field(default=0.1, gt=0, allow_inf_nan=False)
    schedule: Schedule = "cosine"
    warmup_epochs: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    momentum: float = Field(default=0.9, ge=0, lt=1)
    weight_decay: float = Field(default=2e-4, ge=0, lt=1)
    pad: int = Field(default=4, ge=0, le=16)
    seed: int = Field(default=1, ge=0, lt=2**63)
    loss_scale: Literal["dynamic"] | Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    mixed_precision: bool = False
    start: str | None = None
    soft: float = Field(default=0.0, ge=0, le=1)
    softness: float = Field(default=3.0, gt=0, allow_inf_nan=False)
    rounding: RoundingRules = RoundingRules()
    rules: tuple[Rule, ...] = ()
    _source: Source = PrivateAttr(Source("the config"))

    @model_validator(mode="after")
    def _check(self) -> "TrainingConfig":
        if self.soft > 0 and self.start is None:
            raise ValueError(f"soft is {self.soft:g}, which needs the float model `start` to learn from")
        return self

    @property
    def simulation(self) -> Rules | None:
        """The rules for `prepare`; None where everything is float32."""
        if not self.rules:
            return None
        return Rules(seed=self.seed, rounding=self.rounding, rules=self.rules).read_from(self._source)

    def design(self, size: int, classes: int) -> Design:
        """The network for images of this size. Raises SimulateError, which names file and line."""
        try:
            return (self.network or NetworkConfig()).design(size, classes)
        except RecipeError as error:
            raise SimulateError(f"{self._source.at(('network',))}: {error}") from error

    def require_batch(self, images: int, workers: int) -> None:
        """Raise SimulateError, which names file and line, unless the batch has images and equal shares for workers."""
        place = self._source.at(("batch",))
        if self.batch > images:
            raise SimulateError(f"{place}: batch is {self.batch}, expected at most {images}, all training images")
        if self.batch % workers:
            raise SimulateError(f"{place}: batch is {self.batch}, expected a multiple of {workers}, the workers")

    def digest(self, design: Design | None, start: str | None) -> str:
        """SHA-256 (hex) of everything but the data that decides the steps; start: digest of the first weights."""
        whole = {
            **self.model_dump(mode="json"),
            "network": design and vars(design),
            "start": start,
            "checkpoint": _CHECKPOINT,
        }
        return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()


def load_config(path: Path) -> TrainingConfig:
    """Read a config. Raises SimulateError, which names the file and the line of what is wrong."""
    entries, source = read_entries(path, "the config", SimulateError)
    config = checked(TrainingConfig, entries, source, SimulateError)
    config._source = source
    return config
