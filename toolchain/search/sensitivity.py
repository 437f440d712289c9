"""What each layer and feature map costs alone, and the choices that this makes promising.

The relative square error of the outputs, which are a classification's logits, is measured with one weight width or one
number of feature bits below the greatest and everything else at the greatest. Such errors nearly add up, as rounding
errors of different layers are nearly independent. Networks of one width everywhere show how far from the float
network's accuracy a sum of errors leads. Under this model the best choice within the budget for a price of error is
found exactly (`budget.py`); prices from low to high give a row of choices, of which those with the least predicted
objective begin the search.

Workers share the measurements: each takes the next one that the study does not hold yet.
"""

import random
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.callbacks import Progress
from edgemeta.toolchain.quantize.bit_network import BitNetwork
from edgemeta.toolchain.search.budget import Budget, Choice
from edgemeta.toolchain.search.config import SearchConfig
from edgemeta.toolchain.search.evaluator import Evaluator
from edgemeta.toolchain.search.objective import FEATURES, WEIGHTS, Costs, bits_of

if TYPE_CHECKING:
    from optuna.storages import BaseStorage

_BASE = "greatest"
_PRICES = np.geomspace(1e-4, 1e4, 400)


class Sensitivity:
    """Measures a search's layers and maps, together with its other workers, and proposes choices."""

    def __init__(self, config: SearchConfig, network: BitNetwork, evaluator: Evaluator) -> None:
        self._config, self._network, self._evaluator = config, network, evaluator
        self._costs = Costs(network)
        self.space: Mapping[str, tuple[int, ...]] = space_of(config, network)
        self._budget = Budget(config, self._costs, self.space)
        self._base: Choice = {name: values[-1] for name, values in self.space.items()}
        self._tasks = dict(self._all_tasks())
        self._found: dict[str, float] = {}

    def measure(self, storage: "BaseStorage", study: int, progress: Progress) -> None:
        """Measure what the study does not hold yet, in an order of this worker's own."""
        names = list(self._tasks)
        random.shuffle(names)
        for name in names:
            known = storage.get_study_user_attrs(study)
            progress(sum(f"sensitivity:{each}" in known for each in self._tasks), len(self._tasks))
            if f"sensitivity:{name}" not in known:
                storage.set_study_user_attr(study, f"sensitivity:{name}", self._measured(name))
        known = storage.get_study_user_attrs(study)
        self._found = {name: float(known[f"sensitivity:{name}"]) for name in self._tasks}

    def table(self) -> dict[str, dict[int, float]]:
        """Of each layer and map, the error that each value adds."""
        base = self._found[_BASE]
        return {
            name: {value: max(0.0, self._found.get(f"{name}={value}", base) - base) for value in values}
            for name, values in self.space.items()
        }

    def seeds(self) -> list[Choice]:
        """Promising choices, the best first; with several goals, from few bits to many."""
        errors, prices = self.table(), {name: self._prices(name) for name in self.space}
        choices: dict[tuple[int, ...], Choice] = {}
        for price in _PRICES:
            costs = {
                name: {value: price * errors[name][value] + prices[name][value] for value in values}
                for name, values in self.space.items()
            }
            choice = self._budget.cheapest(costs)
            choices.setdefault(tuple(choice.values()), choice)
        row = list(choices.values())
        if self._config.goals:
            places = np.unique(np.linspace(0, len(row) - 1, self._config.seeds).astype(np.int64))
            return [row[place] for place in places.tolist()]
        known, drops = self._drops(errors)

        def predicted(choice: Choice) -> float:
            error = sum(errors[name][value] for name, value in choice.items())
            price = sum(prices[name][value] for name, value in choice.items())
            return float(self._config.objective.alpha * np.interp(error, known, drops) + price)

        return sorted(row, key=predicted)[: self._config.seeds]

    def _prices(self, name: str) -> dict[int, float]:
        """What each value adds to the objective by its size."""
        kind, _, rest = name.partition(".")
        factors, values = self._config.objective, self.space[name]
        if kind == "weights":
            return {value: factors.beta * self._costs.weight_share(rest, value) for value in values}
        return {value: factors.gamma * self._costs.feature_share(rest, value) for value in values}

    def _drops(self, errors: Mapping[str, Mapping[int, float]]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Sums of errors, rising, and the lost accuracy, 0..1, that goes with each."""
        points = [(0.0, 0.0)]
        for name, choice in self._tasks.items():
            if name.startswith("all="):
                total = sum(errors[each][value] for each, value in choice.items())
                points.append((total, self._found[name]))
        totals, drops = np.array(sorted(points)).T
        return totals, np.maximum.accumulate(drops)

    def _all_tasks(self) -> Iterator[tuple[str, Choice]]:
        yield _BASE, self._base
        for name, values in self.space.items():
            for value in values[:-1]:
                yield f"{name}={value}", {**self._base, name: value}
        for value in range(2, 9):
            yield f"all={value}", {name: _nearest(values, value) for name, values in self.space.items()}

    def _measured(self, name: str) -> float:
        """The relative square error of the outputs; of one width everywhere, the accuracy that is lost."""
        with closing(self._evaluator.run(self._network.build(bits_of(self._tasks[name])))) as running:
            if name.startswith("all="):
                images = self._config.images
                return abs(self._evaluator.float_accuracy(images) - running.accuracy(images))
            return running.error(self._config.sensitivity)


def space_of(config: SearchConfig, network: BitNetwork) -> dict[str, tuple[int, ...]]:
    """The values of each parameter, rising."""
    weights = {WEIGHTS + name: config.widths for name in network.layers}
    return weights | {FEATURES + name: config.features for name in network.maps.names}


def _nearest(values: tuple[int, ...], value: int) -> int:
    return min(values, key=lambda each: (abs(each - value), each))
