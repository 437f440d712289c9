"""The cheapest choice of one option for each entry within a budget: a multiple-choice knapsack, solved exactly.

    minimize  sum over i of cost[i][v_i]   subject to   sum over i of size[i][v_i] <= budget

Dynamic programming over the entries keeps, for every total size, the least cost that reaches it, and of these only
states that no other one beats in size and cost (Nemhauser and Ullmann, 1969). For any m >= 0

    cost so far + sum over the entries to come of min(cost + m size) + m (size so far - budget)

is at most the cost of every choice within the budget that a state can still become (Lagrange), so a state for which
this exceeds the cost of a known choice is dropped. m is found by halving an interval.
"""

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

_HALVINGS = 60
_TOLERANCE = 1e-9
"""Relative: sums of float64 in another order are nearer than this, so no state is dropped for its rounding."""

Options = Sequence[NDArray[np.float64]]
Sizes = Sequence[NDArray[np.int64]]


def assign(costs: Sequence[Sequence[float]], sizes: Sequence[Sequence[int]], budget: int) -> list[int] | None:
    """The option of each entry, by its number; of equal costs the least size. None if nothing is within the budget.

    costs, sizes: of each entry's options, as many of the one as of the other, at least one; costs are finite.
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
