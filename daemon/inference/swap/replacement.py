"""What is exchanged: one network for another, on some cameras. And how a swap fails."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from edgemeta.daemon.inference.loaded_model import LoadedModel
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
class Replacement:
    """One network for another, on the cameras that had the one and get the other."""

    before: LoadedModel
    after: LoadedModel
    cameras: tuple[str, ...]

    @property
    def description(self) -> str:
        """For people."""
        return f"{self.before.description} -> {self.after.description} on {', '.join(self.cameras)}"


def replacements_between(running: Mapping[str, LoadedModel], wanted: Mapping[str, LoadedModel]) -> list[Replacement]:
    """Find the exchanges that lead from one choice of networks by camera to another; only cameras that run count."""
    found: dict[tuple[int, int], Replacement] = {}
    for camera, before in running.items():
        after = wanted.get(camera, before)
        if after is before:
            continue
        key = (id(before), id(after))
        others = found[key].cameras if key in found else ()
        found[key] = Replacement(before, after, (*others, camera))
    return list(found.values())
