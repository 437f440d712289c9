"""Where all blocks of a launch wait for the last one, again and again."""

from collections.abc import Callable
from dataclasses import dataclass, field

NEVER = float("inf")


@dataclass
class Gates:
    """arrivals: clocks, in their order, of the blocks at the gates or, in a cluster, of all warps. parties: of a gate.

    A block polls until it may pass; a warp of a cluster is told.
    """

    parties: int
    arrivals: list[float] = field(default_factory=list)
    _waiting: list[Callable[[float], None]] = field(default_factory=list)

    def arrive(self, clock: float) -> None:
        """One more is there; those who wait go on with the last one."""
        self.arrivals.append(clock)
        if len(self.arrivals) % self.parties == 0:
            waiting, self._waiting = self._waiting, []
            for go_on in waiting:
                go_on(clock)

    @property
    def passed(self) -> int:
        """Gates at which all have arrived."""
        return len(self.arrivals) // self.parties

    def are_passed(self, count: int) -> bool:
        """Whether all have arrived at so many gates."""
        return len(self.arrivals) >= count * self.parties

    def wait(self, count: int, go_on: Callable[[float], None]) -> None:
        """Call a function with the clock of the last arrival at gate `count`, at once or when that happens."""
        if self.are_passed(count):
            go_on(self.arrivals[count * self.parties - 1])
        else:
            self._waiting.append(go_on)

    @property
    def opened(self) -> tuple[float, ...]:
        """When the last one arrived at each gate."""
        return tuple(self.arrivals[self.parties - 1 :: self.parties])
