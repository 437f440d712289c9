"""A budget for the bytes of the packed weights, and the choices of bits that keep it."""

from collections.abc import Mapping, Sequence
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from edgemeta.toolchain.errors import SearchError
from edgemeta.toolchain.search.config import SearchConfig
from edgemeta.toolchain.search.objective import WEIGHTS, Costs

Choice = dict[str, int]
Space = Mapping[str, tuple[int, ...]]

_HALVINGS = 60
_TOLERANCE = 1e-9
"""Relative: sums of float64 in another order are nearer than this, so no state is dropped for its rounding."""
Options = Sequence[NDArray[np.float64]]
Sizes = Sequence[NDArray[np.int64]]


class Budget:
    """The choices of a search's space that keep its budget; without a budget, all.

    limit: bytes that the packed weights of all layers may have together, None without a budget. Raises SearchError if
    no choice keeps it.
    """

    def __init__(self, config: SearchConfig, costs: Costs, space: Space) -> None:
        self._space = space
        self._bytes = {name: {value: _bytes(costs, name, value) for value in values} for name, values in space.items()}
        self.limit = config.budget_bytes
        if config.times_smaller is not None:
            self.limit = int(costs.float_bytes / config.times_smaller)
        least = sum(min(each.values()) for each in self._bytes.values())
        if self.limit is not None and least > self.limit:
            key = "budget_bytes" if config.times_smaller is None else "times_smaller"
            raise SearchError(
                f"{key} leaves {self.limit:,} bytes for the weights, expected at least {least:,}, which they have with "
                f"{config.widths[0]} everywhere; the float weights have {costs.float_bytes:,}"
            )

    def cheapest(self, costs: Mapping[str, Mapping[int, float]]) -> Choice:
        """The choice with the least sum of costs within the budget, of several the one with the fewest bytes.

        costs: of each parameter and value.
        """
        sizes = [[self._bytes[name][value] for value in values] for name, values in self._space.items()]
        whole = sum(max(each) for each in sizes)
        limit = whole if self.limit is None else self.limit
        found = assign([[costs[name][value] for value in values] for name, values in self._space.items()], sizes, limit)
        assert found is not None  # as `__init__` has found one
        return {name: values[option] for (name, values), option in zip(self._space.items(), found, strict=True)}

    def nearest(self, choice: Mapping[str, int]) -> Choice:
        """The choice within the budget that differs by the fewest steps of one value to the next."""
        if self.limit is None or sum(self._bytes[name][value] for name, value in choice.items()) <= self.limit:
            return dict(choice)
        distances = {}
        for name, values in self._space.items():
            here = values.index(choice[name])
            distances[name] = {value: float(abs(place - here)) for place, value in enumerate(values)}
        return self.cheapest(distances)


def _bytes(costs: Costs, name: str, value: int) -> int:
    """Bytes that a value of a parameter costs; a feature map costs none."""
    return costs.packed_bytes(name.removeprefix(WEIGHTS), value) if name.startswith(WEIGHTS) else 0


def assign(costs: Sequence[Sequence[float]], sizes: Sequence[Sequence[int]], budget: int) -> list[int] | None:
    """The option of each entry, by its number; of equal costs the least size. None if nothing is within the budget.

    costs, sizes: of each entry's options, as many of the one as of the other, at least one; costs are finite.

    A multiple-choice knapsack, solved exactly:

        minimize  sum over i of cost[i][v_i]   subject to   sum over i of size[i][v_i] <= budget

    Dynamic programming over the entries keeps, for every total size, the least cost that reaches it, and of these only
    states that no other one beats in size and cost (Nemhauser and Ullmann, 1969). For any m >= 0

        cost so far + sum over the entries to come of min(cost + m size) + m (size so far - budget)

    is at most the cost of every choice within the budget that a state can still become (Lagrange), so a state for which
    this exceeds the cost of a known choice is dropped. m is found by halving an interval.
    """
    cost = [np.asarray(each, np.float64) for each in costs]
    size = [np.asarray(each, np.int64) for each in sizes]
    if sum(int(each.min()) for each in size) > budget:
        return None
    multiplier, known = _multiplier(cost, size, budget)
    if multiplier == 0:
        return known
    bound = sum(_taken(cost, known)) + _TOLERANCE * sum(float(np.abs(each).max()) for each in cost)
    to_come = _from_the_end([float((c + multiplier * s).min()) for c, s in zip(cost, size, strict=True)])
    least_size = _from_the_end([int(each.min()) for each in size])
    reached_cost, reached_size = np.zeros(1), np.zeros(1, np.int64)
    steps: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
    for entry, (c, s) in enumerate(zip(cost, size, strict=True), 1):
        all_costs = (reached_cost[:, None] + c).ravel()
        all_sizes = (reached_size[:, None] + s).ravel()
        limit = all_costs + to_come[entry] + multiplier * (all_sizes - budget)
        (kept,) = np.nonzero((limit <= bound) & (all_sizes + least_size[entry] <= budget))
        kept = kept[_unbeaten(all_costs[kept], all_sizes[kept])]
        reached_cost, reached_size = all_costs[kept], all_sizes[kept]
        steps.append((kept // len(c), kept % len(c)))
    return _followed(steps)


def _multiplier(cost: Options, size: Sizes, budget: int) -> tuple[float, list[int]]:
    """m, and the choice within the budget that min(cost + m size) of each entry gives; for m = 0 it is the best."""

    def chosen(m: float) -> list[int]:
        return [int(np.lexsort((s, c + m * s))[0]) for c, s in zip(cost, size, strict=True)]

    least = chosen(0.0)
    if sum(_taken(size, least)) <= budget:
        return 0.0, least
    spread = sum(float(np.ptp(each)) for each in cost)
    low, high, known = 0.0, spread + 1.0, [int(np.lexsort((c, s))[0]) for c, s in zip(cost, size, strict=True)]
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        choice = chosen(middle)
        if sum(_taken(size, choice)) <= budget:
            high, known = middle, choice
        else:
            low = middle
    return high, known


def _unbeaten(cost: NDArray[np.float64], size: NDArray[np.int64]) -> NDArray[np.int64]:
    """Numbers of the states than which none is both at most as great and at most as dear, by size."""
    order = np.lexsort((cost, size))
    least_before = np.concatenate(([np.inf], np.minimum.accumulate(cost[order])[:-1]))
    unbeaten: NDArray[np.int64] = order[cost[order] < least_before]
    return unbeaten


def _followed(steps: Sequence[tuple[NDArray[np.int64], NDArray[np.int64]]]) -> list[int]:
    """The options of the last, cheapest state, from the states before each and the option taken there."""
    options, state = [], -1
    for before, taken in reversed(steps):
        options.append(int(taken[state]))
        state = int(before[state])
    return options[::-1]


def _taken(values: Sequence[NDArray[np.float64]] | Sizes, choice: Sequence[int]) -> list[float]:
    return [each[option].item() for each, option in zip(values, choice, strict=True)]


def _from_the_end(values: Sequence[float]) -> list[float]:
    """Sums of values[k:], for k = 0 .. their number."""
    return list(accumulate(reversed(values), initial=0))[::-1]
