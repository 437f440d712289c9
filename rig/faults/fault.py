"""What a fault is, and the list of them all.

Each fault is a generator. Up to its `yield` it causes the fault and checks what the service reports; after it the part
works again. The suite then waits for frames of all cameras.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from rig.scenario import Scenario

Steps: TypeAlias = Callable[[Scenario], Iterator[None]]


@dataclass(frozen=True)
class Fault:
    """A fault of one part. Faults of different parts may be combined.

    alone: never combined, because it needs the other parts to check the result, or because messages that wait in memory
    are lost with the service by design. disk: needs a separate disk.
    """

    part: str
    name: str
    steps: Steps
    alone: bool = False
    disk: bool = False


FAULTS: list[Fault] = []


def fault(part: str, name: str, alone: bool = False, disk: bool = False) -> Callable[[Steps], Steps]:
    """Add a fault to the list."""

    def put(steps: Steps) -> Steps:
        FAULTS.append(Fault(part, name, steps, alone, disk))
        return steps

    return put
