"""The result of a search: the best trial, the Pareto front, and the chosen network as a model file."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from edgemeta.model.atomic_write import write_atomically
from edgemeta.model.callbacks import Report
from edgemeta.model.file import save
from edgemeta.model.self_test import with_self_test
from edgemeta.toolchain.errors import SearchError
from edgemeta.toolchain.quantize.bit_network import Bits
from edgemeta.toolchain.search.config import DEVICE_GOALS, SearchConfig
from edgemeta.toolchain.search.judge import Tested
from edgemeta.toolchain.search.ledger import KEY
from edgemeta.toolchain.search.objective import bits_of
from edgemeta.toolchain.search.proposals import SEED
from edgemeta.toolchain.search.run import RESULT, Searched

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial


_NUMBERS = ("objective", "accuracy", "float_accuracy", "bytes", "packed_bytes", "bit_operations")

Source = Literal["assignment", "sampler"]
"""What proposed a trial: the sensitivities' assignment, or the sampler."""


@dataclass(frozen=True)
class Outcome:
    """A trial that saw all images.

    bytes, packed_bytes: of the weights, with and without the scales of channels. device: what an image costs on a
    device, by the name of the goal; empty where no goal asks for it.
    """

    trial: int
    found_by: Source
    objective: float
    accuracy: float
    float_accuracy: float
    bytes: int
    packed_bytes: int
    bit_operations: int
    device: Mapping[str, float]
    weights: Mapping[str, int]
    features: Mapping[str, int]

    @property
    def bits(self) -> Bits:
        """The choice."""
        return Bits(self.weights, self.features)

    @property
    def costs(self) -> tuple[float, ...]:
        """What the front has beside accuracy and bytes: costs on a device, without any of these bit operations."""
        return tuple(self.device.values()) or (float(self.bit_operations),)

    def values(self) -> dict[str, Any]:
        """As JSON; accuracies in percent."""
        return {
            "trial": self.trial,
            "found_by": self.found_by,
            "objective": round(self.objective, 6),
            "accuracy": round(100 * self.accuracy, 4),
            "float_accuracy": round(100 * self.float_accuracy, 4),
            "bytes": self.bytes,
            "packed_bytes": self.packed_bytes,
            "bit_operations": self.bit_operations,
            "weights": dict(self.weights),
            "features": dict(self.features),
            **{goal: round(cost, 3) for goal, cost in self.device.items()},
        }


def outcomes(trials: Sequence["FrozenTrial"]) -> list[Outcome]:
    """The trials that were not stopped early, by number."""
    from optuna.trial import TrialState

    found = []
    for trial in trials:
        if trial.state == TrialState.COMPLETE:
            result, bits = trial.user_attrs[RESULT], bits_of(trial.params)
            known: dict[str, Any] = {key: result[key] for key in _NUMBERS}
            device = {goal: result[goal] for goal in DEVICE_GOALS if goal in result}
            by: Source = "assignment" if trial.user_attrs[KEY].startswith(SEED) else "sampler"
            known |= {"weights": bits.weights, "features": bits.maps, "device": device}
            found.append(Outcome(trial=trial.number, found_by=by, **known))
    return found


def front(found: Sequence[Outcome]) -> list[Outcome]:
    """Those than which no other one is at least as accurate, small and cheap and better in one, by bytes."""

    def is_beaten(one: Outcome) -> bool:
        mine = (-one.accuracy, one.bytes, *one.costs)
        others = ((-other.accuracy, other.bytes, *other.costs) for other in found)
        return any(all(b <= a for a, b in zip(mine, each, strict=True)) and each != mine for each in others)

    unbeaten = {(each.accuracy, each.bytes, each.costs): each for each in reversed(found) if not is_beaten(each)}
    return sorted(unbeaten.values(), key=lambda each: (each.bytes, each.costs))


def best(found: Sequence[Outcome]) -> Outcome:
    """The one of the least objective, the first of several. Raises SearchError without any."""
    if not found:
        raise SearchError("no trial has seen all images, expected one: raise --trials, or have fewer rungs")
    return min(found, key=lambda each: (each.objective, each.trial))


def best_of(found: Sequence[Outcome]) -> dict[Source, dict[str, Any]]:
    """The least objective of what the assignment and what the sampler proposed; without what proposed none."""
    sources: tuple[Source, ...] = ("assignment", "sampler")
    some = {by: [each for each in found if each.found_by == by] for by in sources}
    return {
        by: {key: best(each).values()[key] for key in ("trial", "objective", "accuracy", "packed_bytes")}
        for by, each in some.items()
        if each
    }


@dataclass(frozen=True)
class Chosen:
    """The chosen network's file.

    test: both networks on the test images, None without them. remarks: what is in doubt.
    """

    path: Path
    sha256: str
    size: int
    test: Tested | None
    remarks: tuple[str, ...]


def save_chosen(searched: Searched, outcome: Outcome, path: Path, test: Path | None, report: Report) -> Chosen:
    """Write the network of an outcome; the temperature of a classification's scores is that of the held-out images.

    test: images to measure it on. report: called with one sentence for a picture that is left out. Raises DataError.

    Its provenance names the study. A trained one is trained again, as the storage has no weights.
    """
    config, network = searched.config, searched.setup.network
    epochs = config.steps[-1].epochs
    integer = searched.setup.build(outcome.bits, epochs)
    study = {
        "study": config.name,
        "search_sha256": config.digest(),
        "trial": outcome.trial,
        "trials": len(searched.trials),
        "objective": outcome.objective,
        "judged_images": config.images,
        "judged_accuracy": outcome.accuracy,
    }
    if config.training is not None:
        study["training"] = {**config.training.model_dump(), "epochs": epochs}
    provenance = {**integer.provenance, "search": study, "float": dict(network.model.provenance)}
    judge = searched.setup.judge
    remarks: list[str] = []
    integer = judge.finished(replace(integer, provenance=provenance), remarks.append)
    for remark in remarks:
        report(remark)
    tested = None if test is None else judge.tested(network.model, integer, test, report)
    if tested is not None:
        integer = replace(integer, provenance={**integer.provenance, **tested.figures})
    digest = save(with_self_test(replace(integer, name=config.name)), path)
    return Chosen(path, digest, path.stat().st_size, tested, tuple(remarks))


def values_of(config: SearchConfig, searched: Searched, chosen: Chosen | None, training: Path | None) -> dict[str, Any]:
    """What `edgemeta search --json` prints.

    chosen: None where it could not be written. training: config for training on at the found widths, if it was written.
    """
    found = outcomes(searched.trials)
    test = None if chosen is None else chosen.test
    return {
        "study": config.name,
        "storage": searched.storage,
        "trials": len(searched.trials),
        "complete": len(found),
        "pruned": len(searched.trials) - len(found),
        "budget_bytes": searched.budget,
        "best": best(found).values(),
        "best_of": best_of(found),
        "front": [each.values() for each in front(found)],
        "training": None if training is None else str(training),
        "model": None if chosen is None else str(chosen.path),
        "sha256": None if chosen is None else chosen.sha256,
        "model_bytes": None if chosen is None else chosen.size,
        "remarks": [] if chosen is None else list(chosen.remarks),
        "measure": searched.setup.judge.measure,
        "test_accuracy": None if test is None else round(100 * test.accuracy, 4),
        "float_test_accuracy": None if test is None else round(100 * test.float_accuracy, 4),
        "evaluated_images": searched.evaluated,
        "seconds": round(searched.seconds, 1),
    }


def write_values(values: Mapping[str, Any], path: Path) -> None:
    """The same as a file."""
    write_atomically(path, (json.dumps(values, indent=2) + "\n").encode())
