"""A step away from a good trial: one or two of its numbers move to the value beside them."""

from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np

from edgemeta.toolchain.search.budget import Choice

_TRIES = 20
"""To find a step that leads to a choice that was not tried yet."""


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
