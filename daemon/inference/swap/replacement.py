"""One model replaced by another on some cameras, and the error of a failed swap."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from edgemeta.daemon.inference.loaded_model import LoadedModel
from edgemeta.daemon.messages.swaps import SwapResult
from edgemeta.model.errors import EdgemetaError

Trigger: TypeAlias = Literal["start", "file", "signal", "command"]
"""What triggered a change."""


class SwapError(EdgemetaError):
    """A swap that failed; `result` is the result to report."""

    def __init__(self, result: SwapResult, reason: str) -> None:
        super().__init__(reason)
        self.result = result


@dataclass(frozen=True, eq=False)
class Replacement:
    """The running model of some cameras and the one that replaces it."""

    before: LoadedModel
    after: LoadedModel
    cameras: tuple[str, ...]

    @property
    def description(self) -> str:
        """Both models and the cameras, for log lines."""
        return f"{self.before.description} -> {self.after.description} on {', '.join(self.cameras)}"


def replacements_between(running: Mapping[str, LoadedModel], wanted: Mapping[str, LoadedModel]) -> list[Replacement]:
    """Return the replacements between two assignments of models by camera; only running cameras count."""
    found: dict[tuple[int, int], Replacement] = {}
    for camera, before in running.items():
        after = wanted.get(camera, before)
        if after is before:
            continue
        key = (id(before), id(after))
        others = found[key].cameras if key in found else ()
        found[key] = Replacement(before, after, (*others, camera))
    return list(found.values())
