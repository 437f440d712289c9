"""One worker of a search: takes choices, measures their networks, and stores the results, until there are enough."""

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from edgemeta.model.errors import ModelError
from edgemeta.model.graph import Model
from edgemeta.toolchain.errors import QuantizeError, SimulateError
from edgemeta.toolchain.search.budget import Budget
from edgemeta.toolchain.search.config import SearchConfig, Step
from edgemeta.toolchain.search.device_costs import NO_NETWORK, device_costs
from edgemeta.toolchain.search.evaluator import Evaluator, Running, SearchSetup, prepare
from edgemeta.toolchain.search.ledger import Ledger, open_study
from edgemeta.toolchain.search.objective import Costs, bits_of, objective
from edgemeta.toolchain.search.proposals import Proposals, distributions
from edgemeta.toolchain.search.sensitivity import Sensitivity, space_of
from edgemeta.toolchain.search.storage import Patient, open_storage, without_password

if TYPE_CHECKING:
    from optuna.storages import BaseStorage
    from optuna.study import Study
    from optuna.trial import FrozenTrial

RESULT = "result"
_PATIENCE = 300.0
"""Seconds that a worker waits for a storage's server to come back."""
_WAIT = 0.1


class Candidate:
    """Is built when a step needs it, and again only for a step with other epochs.

    build: makes the network, trained for so many epochs. model: the newest one; None before the first step and where
    there is none with these bits, because a number does not fit. error: the reason then.
    """

    def __init__(self, evaluator: Evaluator, build: Callable[[int], Model]) -> None:
        self._evaluator, self._build = evaluator, build
        self._epochs: int | None = None
        self._running: Running | None = None
        self.model: Model | None = None
        self.error: str | None = None

    def accuracy(self, step: Step) -> float:
        """Share 0..1 of the step's images that are classified correctly, 0 where there is no network."""
        if step.epochs != self._epochs:
            self._renew(step.epochs)
        return 0.0 if self._running is None else self._running.accuracy(step.images)

    def close(self) -> None:
        """Free the session."""
        if self._running is not None:
            self._running.close()
            self._running = None

    def _renew(self, epochs: int) -> None:
        self.close()
        self._epochs, self.model, self.error = epochs, None, None
        try:
            model = self._build(epochs)
            self._running = self._evaluator.run(model)
        except (QuantizeError, SimulateError, ModelError) as error:
            self.error = str(error)
        else:
            self.model = model


class SearchObserver:
    """Ignores all events; subclasses override."""

    def stage(self, name: str) -> None:
        """A part of the work begins."""

    def progress(self, done: int, total: int, best: float | None = None) -> None:
        """So many trials, or measurements, are done; the least objective so far."""

    def remark(self, sentence: str) -> None:
        """A picture or file is left out."""


@dataclass(frozen=True, eq=False)
class Searched:
    """What a worker knows at the end.

    trials: those that count. budget: bytes that the packed weights may have, None without one. evaluated: images that
    this worker ran.
    """

    config: SearchConfig
    setup: SearchSetup
    trials: tuple["FrozenTrial", ...]
    budget: int | None
    sensitivity: Mapping[str, Mapping[int, float]]
    storage: str
    evaluated: int
    seconds: float


def search(config: SearchConfig, folder: Path, observer: SearchObserver | None = None) -> Searched:
    """Work on a search's study until it has `config.trials` trials. Raises ToolchainError, BackendError.

    folder: holds the journal of the trials if the config names no storage. An interrupted worker's trial is given to
    another one, or to the next worker that starts.
    """
    begin = time.monotonic()
    observer = observer or SearchObserver()
    where = config.storage or str(folder / "trials.journal")
    storage = cast("BaseStorage", Patient(open_storage(where), _PATIENCE))
    study = open_study(storage, config.name, config.directions, config.digest())
    observer.stage("data and ranges")
    worker = _Worker(config, prepare(config, observer.remark), storage, study, observer)
    table: Mapping[str, Mapping[int, float]] = {}
    if config.sensitivity:
        observer.stage("sensitivities")
        table = worker.measure_sensitivity()
    observer.stage("trials")
    worker.run()
    trials = tuple(worker.ledger.counted()[: config.trials])
    seconds = time.monotonic() - begin
    return Searched(
        config,
        worker.setup,
        trials,
        worker.budget.limit,
        table,
        without_password(where),
        worker.evaluator.evaluated,
        seconds,
    )


class _Worker:
    def __init__(
        self,
        config: SearchConfig,
        setup: SearchSetup,
        storage: "BaseStorage",
        study: int,
        observer: SearchObserver,
    ) -> None:
        self._config, self.setup, self._observer = config, setup, observer
        self._storage, self._study = storage, study
        self._network = setup.network
        self.evaluator = Evaluator(setup.network.model, setup.judge)
        self._costs = Costs(setup.network)
        self._device_costs = device_costs(config, self.evaluator)
        self._space = space_of(config, setup.network)
        self.budget = Budget(config, self._costs, self._space)
        self.ledger = Ledger(storage, study, distributions(self._space), config.lease)
        self._seeds: list[dict[str, int]] = []

    def measure_sensitivity(self) -> Mapping[str, Mapping[int, float]]:
        sensitivity = Sensitivity(self._config, self._network, self.evaluator)
        sensitivity.measure(self._storage, self._study, self._observer.progress)
        self._seeds = sensitivity.seeds()
        return sensitivity.table()

    def run(self) -> None:
        limit = self._config.trials
        study = self._optuna_study()
        proposals = Proposals(self._config, self._config.directions, self._space, self._seeds, self.budget)
        with self.ledger.signs_of_life():
            while True:
                counted = self.ledger.counted()
                values = [each.value for each in counted if len(each.values or ()) == 1 and each.value is not None]
                self._observer.progress(len(counted), limit, min(values, default=None))
                if len(counted) >= limit:
                    return
                again = self.ledger.abandoned()
                if again is not None:
                    key, choice = again
                elif self.ledger.open_keys(limit):
                    key, choice = proposals.next(self.ledger.trials())
                else:
                    time.sleep(_WAIT)
                    continue
                trial = self.ledger.begin(key, choice, limit)
                if trial is not None:
                    self._run_trial(study, trial, choice)

    def _optuna_study(self) -> "Study":
        import optuna
        from optuna.pruners import NopPruner, SuccessiveHalvingPruner

        is_halving = len(self._config.steps) > 1
        pruner = SuccessiveHalvingPruner(1, self._config.halving, 0) if is_halving else NopPruner()
        return optuna.load_study(study_name=self._config.name, storage=self._storage, pruner=pruner)

    def _run_trial(self, study: "Study", trial: int, choice: Mapping[str, int]) -> None:
        try:
            self._measure(study, trial, choice)
        except BaseException:
            self.ledger.fail(trial)  # to be given again at once, not only after the time of a lease
            raise

    def _measure(self, study: "Study", trial: int, choice: Mapping[str, int]) -> None:
        bits = bits_of(choice)
        sizes = self._costs.of(bits)
        result: dict[str, Any] = asdict(sizes)
        pruned, value = False, 0.0
        candidate = Candidate(self.evaluator, lambda epochs: self.setup.build(bits, epochs))
        for number, step in enumerate(self._config.steps):
            floating = self.evaluator.float_accuracy(step.images)
            accuracy = candidate.accuracy(step)
            value = objective(self._config.objective, floating, accuracy, sizes)
            result |= {"images": step.images, "epochs": step.epochs}
            result |= {"accuracy": accuracy, "float_accuracy": floating, "objective": value}
            if step != self._config.steps[-1]:
                self._storage.set_trial_intermediate_value(trial, self._config.halving**number, value)
                if study.pruner.prune(study, self._storage.get_trial(trial)):
                    pruned = True
                    break
        candidate.close()
        if candidate.error is not None:
            result["error"] = candidate.error
        for goal, cost in self._device_costs.items():
            result[goal] = NO_NETWORK if candidate.model is None else cost(candidate.model)
        self._storage.set_trial_user_attr(trial, RESULT, result)
        self.ledger.finish(trial, [result[goal] for goal in self._config.goals or ("objective",)], pruned=pruned)
