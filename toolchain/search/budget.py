"""A budget for the bytes of the packed weights, and the choices of bits that keep it."""

from collections.abc import Mapping

from edgemeta.toolchain.errors import SearchError
from edgemeta.toolchain.search.assignment import assign
from edgemeta.toolchain.search.config import SearchConfig
from edgemeta.toolchain.search.objective import WEIGHTS, Costs

Choice = dict[str, int]
Space = Mapping[str, tuple[int, ...]]


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
