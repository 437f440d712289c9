"""What to try next: the seeds of the sensitivities, then steps from good trials, and an Optuna sampler."""

import uuid
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from edgemeta.toolchain.search.budget import Budget, Choice
from edgemeta.toolchain.search.config import SearchConfig
from edgemeta.toolchain.search.ledger import KEY, is_done

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.samplers import BaseSampler
    from optuna.trial import FrozenTrial


SEED = "seed:"
"""How the keys of the choices begin that the sensitivities gave."""


_STEPS = 0.5
"""Share of the proposals of the sampler `mixed` that are steps from a good trial; the others are TPE's."""
_PARENTS = 5
"""Trials of the least objective from which steps are taken."""

_TRIES = 20
"""To find a step that leads to a choice that was not tried yet."""


def distributions(space: Mapping[str, tuple[int, ...]]) -> dict[str, "BaseDistribution"]:
    """Optuna's form of a search space: whole numbers, or a list where some between are missing."""
    from optuna.distributions import CategoricalDistribution, IntDistribution

    return {
        name: IntDistribution(values[0], values[-1])
        if len(values) == values[-1] - values[0] + 1
        else CategoricalDistribution(values)
        for name, values in space.items()
    }


class Proposals:
    """Proposes choices; Optuna's sampler works on a copy of the finished trials in memory.

    So a proposal costs no write to the storage, and it depends on nothing but the search's seed and those trials.
    """

    def __init__(
        self,
        config: SearchConfig,
        directions: Sequence[str],
        space: Mapping[str, tuple[int, ...]],
        seeds: Sequence[Choice],
        budget: Budget,
    ) -> None:
        import optuna

        self._config, self._space, self._seeds, self._budget = config, space, seeds, budget
        self._distributions = distributions(space)
        self._copy = optuna.create_study(directions=list(directions))
        self._copied: set[int] = set()

    def next(self, trials: Sequence["FrozenTrial"]) -> tuple[str, Choice]:
        """A key that no trial has, and its choice."""
        known = {trial.user_attrs[KEY] for trial in trials}
        for number, choice in enumerate(self._seeds):
            if f"{SEED}{number}" not in known:
                return f"{SEED}{number}", choice
        for trial in trials:
            if is_done(trial) and trial.number not in self._copied:
                self._copied.add(trial.number)
                self._copy.add_trial(trial)
        stepped = self._stepped(trials) if self._config.sampler == "mixed" else None
        return uuid.uuid4().hex, stepped or self._sampled(len(trials))

    def _stepped(self, trials: Sequence["FrozenTrial"]) -> Choice | None:
        dice = np.random.default_rng([self._config.seed, len(trials)])
        if dice.random() >= _STEPS:
            return None
        tried = {tuple(trial.params[name] for name in self._space) for trial in trials}
        return step_from(self._parents(), self._space, self._budget.nearest, tried, dice)

    def _parents(self) -> list[Choice]:
        """The best trials that saw all images; of several goals, those of the front."""
        from optuna.trial import TrialState

        if self._config.goals:
            return [trial.params for trial in self._copy.best_trials]
        complete = self._copy.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        return [trial.params for trial in sorted(complete, key=lambda trial: trial.values[0])[:_PARENTS]]

    def _sampled(self, number: int) -> Choice:
        from optuna.trial import TrialState

        self._copy.sampler = self._sampler(number)
        trial = self._copy.ask(self._distributions)
        self._copy.tell(trial, state=TrialState.FAIL)
        return self._budget.nearest({name: int(trial.params[name]) for name in self._space})

    def _sampler(self, number: int) -> "BaseSampler":
        from optuna.exceptions import ExperimentalWarning
        from optuna.samplers import RandomSampler, TPESampler

        seed = (self._config.seed * 1_000_003 + number) % 2**32
        if self._config.sampler == "random":
            return RandomSampler(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExperimentalWarning)
            return TPESampler(multivariate=True, seed=seed)


def step_from(
    parents: Sequence[Mapping[str, int]],
    space: Mapping[str, tuple[int, ...]],
    allowed: Callable[[Choice], Choice],
    tried: Collection[tuple[int, ...]],
    dice: np.random.Generator,
) -> Choice | None:
    """A choice beside one of the parents that was not tried; None if none is found.

    allowed: moves a choice into the budget. tried: choices, as values in the order of the space.
    """
    free = [name for name, values in space.items() if len(values) > 1]
    if not free or not parents:
        return None
    for _ in range(_TRIES):
        choice = dict(parents[int(dice.integers(len(parents)))])
        count = min(int(dice.integers(1, 3)), len(free))
        for place in dice.choice(len(free), count, replace=False):
            choice[free[place]] = _beside(space[free[place]], choice[free[place]], dice)
        choice = allowed(choice)
        if tuple(choice[name] for name in space) not in tried:
            return choice
    return None


def _beside(values: tuple[int, ...], value: int, dice: np.random.Generator) -> int:
    place = values.index(value)
    beside = [values[at] for at in (place - 1, place + 1) if 0 <= at < len(values)]
    return beside[int(dice.integers(len(beside)))]
