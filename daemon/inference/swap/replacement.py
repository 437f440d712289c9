"""What is exchanged: one network for another, on some cameras. And how a swap fails."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from edgemeta.daemon.inference.loaded_model import Network
from edgemeta.daemon.messages.records import SwapResult
from edgemeta.model.errors import EdgemetaError

Trigger: TypeAlias = Literal["start", "file", "signal", "command"]
"""What asked for a change."""


class SwapError(EdgemetaError):
    """A swap that did not come to its end; `result` says how far it came."""

    def __init__(self, result: SwapResult, reason: str) -> None:
        super().__init__(reason)
        self.result = result


@dataclass(frozen=True, eq=False)
class Exchange:
    """One network for another, on the cameras that had the one and get the other."""

    before: Network
    after: Network
    cameras: tuple[str, ...]

    @property
    def words(self) -> str:
        """For people."""
        return f"{self.before.words} -> {self.after.words} on {', '.join(self.cameras)}"


def exchanges_between(running: Mapping[str, Network], wanted: Mapping[str, Network]) -> list[Exchange]:
    """Find the exchanges that lead from one choice of networks by camera to another; only cameras that run count."""
    found: dict[tuple[int, int], Exchange] = {}
    for camera, before in running.items():
        after = wanted.get(camera, before)
        if after is before:
            continue
        key = (id(before), id(after))
        others = found[key].cameras if key in found else ()
        found[key] = Exchange(before, after, (*others, camera))
    return list(found.values())
