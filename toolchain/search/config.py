"""The file of a search: network, data, what is varied, what counts, and where the trials are stored."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from edgemeta.kernels.cuda.plan.architectures import ARCHITECTURES
from edgemeta.model.yaml_file import checked, read_entries
from edgemeta.toolchain.data.split import SPLIT_SEED
from edgemeta.toolchain.errors import SearchError, SimulateError
from edgemeta.toolchain.quantize.weight_schemes import WeightSchemeName, weight_scheme

Goal = Literal["accuracy", "bytes", "bit_operations", "microseconds", "warp_instructions"]
"""accuracy is to be great, the others small: stored bytes of the weights, weight bits times feature bits of every
multiplication, the measured time of an image on a backend, and the counted instructions of an image on a GPU."""
DEVICE_GOALS: tuple[Goal, ...] = ("microseconds", "warp_instructions")
"""Goals that each trial is measured or counted for on its own (`device_costs.py`)."""
RUNGS = (250, 500, 1000)
"""Numbers of images after which trials are compared, where a search names no others."""
Sampler = Literal["mixed", "tpe", "random"]
Factor = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class HeldOut(BaseModel):
    """The part of the labelled images that trials are measured on; the others calibrate (`data.split`).

    By default the part that shipped recipes hold out of the training.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    share: float = Field(default=0.1, gt=0, lt=1)
    seed: int = Field(default=SPLIT_SEED, ge=0, lt=2**31)


class Objective(BaseModel):
    """C = alpha |o - r| + beta Wb / Wf + gamma qb / qf, to be small (`objective.py`)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    alpha: Factor = 10.0
    beta: Factor = 2.0
    gamma: Factor = 1.0


class TrialTraining(BaseModel):
    """Each trial is trained at its bits before it is measured, by SGD (`trial_training.py`).

    images: of those that judge no trial, equally many of each class. epochs: passes over them before each measuring;
    successive halving stops the worse trials between these. batch: images of a step; lr: peak learning rate.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    images: int = Field(default=5000, ge=1)
    epochs: tuple[Annotated[int, Field(ge=1)], ...] = Field(default=(1, 2, 4), min_length=1)
    batch: int = Field(default=128, ge=1)
    lr: float = Field(default=0.02, gt=0, allow_inf_nan=False)

    @field_validator("epochs")
    @classmethod
    def _epochs(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if list(value) != sorted(set(value)):
            raise ValueError(f"epochs are {list(value)}, expected rising numbers")
        return value


@dataclass(frozen=True)
class Step:
    """Where a trial is measured: the images that judge it, and the epochs that it is trained for before."""

    images: int
    epochs: int = 0


class SearchConfig(BaseModel):
    """A search. Paths are relative to the working directory.

    network: float model, a file or a shipped name. data: labelled images. calibration: how many of those that are not
    held out give the ranges of feature maps. images: how many of the held-out ones, equally many of each class, judge
    a trial. scheme, weights, features: the weight scheme, its bits or bases, and the bits of feature maps to choose
    from. objective: one number; goals: several instead, whose front is searched. backend: that `microseconds` is
    measured on; cuda_arch: the GPU generation that `warp_instructions` is counted for. rungs: numbers of images after
    which successive halving stops the worse trials, the share 1 - 1 / halving of them; None: those of RUNGS that are
    less than `images`; an empty list: every trial sees all images. sensitivity: images for measuring what each layer
    and width costs alone; 0: the search does not begin with that. seeds: trials that begin the search, chosen by the
    sensitivities. sampler: what proposes the others; mixed: by chance TPE or a step from one of the best trials.
    storage: an SQLAlchemy URL such as postgresql+psycopg://..., or a journal file; default: one in the folder of the
    results. lease: seconds without a sign of life after which a worker's trial is given to another. budget_bytes:
    that the packed weights of a trial may have at most (`Costs.packed_bytes`); or times_smaller: how many times
    smaller than float32 weights they are at least. training: of every trial, whose epochs are then the rungs; None:
    trials keep the float network's weights.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    network: str
    data: str | None = None
    name: str = Field(min_length=1, max_length=100)
    held_out: HeldOut = HeldOut()
    calibration: int = Field(default=100, ge=1)
    images: int = Field(default=2000, ge=1)
    scheme: WeightSchemeName = "binary"
    weights: tuple[int, ...] | None = None
    features: tuple[int, ...] = tuple(range(2, 9))
    objective: Objective = Objective()
    goals: tuple[Goal, ...] | None = None
    backend: str = "cpu"
    cuda_arch: str = "sm_53"
    sampler: Sampler = "mixed"
    seed: int = Field(default=1, ge=0, lt=2**31)
    rungs: tuple[int, ...] | None = None
    halving: int = Field(default=2, ge=2, le=8)
    sensitivity: int = Field(default=250, ge=0)
    seeds: int = Field(default=30, ge=0)
    storage: str | None = None
    lease: float = Field(default=60.0, gt=0, le=86400)
    budget_bytes: int | None = Field(default=None, ge=1)
    times_smaller: float | None = Field(default=None, ge=1, allow_inf_nan=False)
    training: TrialTraining | None = None
    trials: int = Field(default=200, ge=1)

    @field_validator("features")
    @classmethod
    def _features(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        return _ascending(value, tuple(range(2, 9)), "bits of feature maps")

    @field_validator("cuda_arch")
    @classmethod
    def _cuda_arch(cls, value: str) -> str:
        if value not in ARCHITECTURES:
            raise ValueError(f"cuda_arch is {value}, expected one of {', '.join(ARCHITECTURES)}")
        return value

    @field_validator("goals")
    @classmethod
    def _goals(cls, value: tuple[Goal, ...] | None) -> tuple[Goal, ...] | None:
        if value is not None and (len(value) < 2 or len(set(value)) < len(value)):
            raise ValueError("expected two or more different goals")
        return value

    @model_validator(mode="after")
    def _consistent(self) -> "SearchConfig":
        if self.weights is not None:
            _ascending(self.weights, weight_scheme(self.scheme).widths, f"weights of scheme {self.scheme}")
        rungs = list(self.rungs or ())
        if rungs != sorted(set(rungs)) or not all(0 < rung < self.images for rung in rungs):
            raise ValueError(f"rungs are {rungs}, expected rising numbers below images, {self.images}")
        if self.sensitivity > self.images:
            raise ValueError(f"sensitivity is {self.sensitivity} images, expected at most images, {self.images}")
        if self.budget_bytes is not None and self.times_smaller is not None:
            raise ValueError("found budget_bytes and times_smaller, expected one of them")
        if self.training is not None and self.rungs is not None:
            raise ValueError("found rungs and training, expected one of them: the epochs of a training are the rungs")
        if self.training is not None and self.scheme == "binary":
            raise ValueError("found training of scheme binary, expected fixed or power-of-two: bases are not trained")
        return self

    @property
    def widths(self) -> tuple[int, ...]:
        """The bits or bases to choose from."""
        return self.weights or weight_scheme(self.scheme).widths

    @property
    def steps(self) -> tuple[Step, ...]:
        """Where a trial is measured; the last step has all images and epochs. Several goals: only that."""
        if self.training is not None:
            steps = [Step(self.images, epochs) for epochs in self.training.epochs]
        else:
            rungs = tuple(rung for rung in RUNGS if rung < self.images) if self.rungs is None else self.rungs
            steps = [Step(images) for images in (*rungs, self.images)]
        return tuple(steps[-1:] if self.goals else steps)

    @property
    def directions(self) -> tuple[str, ...]:
        """Whether each result of a trial is to be great or small, in Optuna's words."""
        return tuple("maximize" if goal == "accuracy" else "minimize" for goal in self.goals or ("objective",))

    def digest(self) -> str:
        """Identifies what a trial's result depends on; a study is continued only with the same."""
        fixed = self.model_dump(exclude={"storage", "lease", "trials", "data"})
        return hashlib.sha256(json.dumps(fixed, sort_keys=True).encode()).hexdigest()


def _ascending(value: tuple[int, ...], known: tuple[int, ...], what: str) -> tuple[int, ...]:
    if not value or list(value) != sorted(set(value)) or not set(value) <= set(known):
        raise ValueError(f"{what} are {list(value)}, expected rising numbers of {known[0]} .. {known[-1]}")
    return value


def load_search(path: Path, **replaced: Any) -> SearchConfig:
    """Read a search's file; what is given and not None replaces its entry. Raises SearchError."""
    try:
        entries, source = read_entries(path, str(path), SimulateError)
        if isinstance(entries, dict):
            entries = {**entries, **{key: value for key, value in replaced.items() if value is not None}}
        return checked(SearchConfig, entries, source, SimulateError)
    except SimulateError as error:
        raise SearchError(str(error)) from error
