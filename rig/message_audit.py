"""Checks from messages alone that none was lost and none was duplicated.

For each start (`boot`) of the service and each camera:
- frames: of all numbers up to the largest received, exactly as many are missing as `dropped` and `withheld` count;
- states: each change of `state` from one frame to the next has its state message;
- repetitions: a repeated message is identical, with the same id.
"""

from collections import Counter
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

Stream: TypeAlias = tuple[str, str]
"""One start of the service, by `boot`, and one of its cameras."""


class RecordedFrame(NamedTuple):
    """A recorded frame message; `missing` counts the earlier frames without a message, by reason."""

    id: int
    state: str | None
    missing: Mapping[str, int]


@dataclass
class StreamResult:
    """Result for one stream: number of frames, and losses."""

    frames: int = 0
    lost_frames: int = 0
    lost_states: int = 0
    missing: Counter[str] = field(default_factory=Counter)


def check_stream(frames: Mapping[int, RecordedFrame], states: Set[int], killed: bool) -> StreamResult:
    """Count the missing messages of one stream. Only the newest state of a killed service may be missing."""
    numbers = sorted(frames)
    newest = frames[numbers[-1]]
    result = StreamResult(frames=len(numbers), missing=Counter(newest.missing))
    result.lost_frames = abs(numbers[-1] - len(numbers) - sum(newest.missing.values()))
    state, before = None, 0
    for number in numbers:
        changed, state = frames[number].state != state, frames[number].state
        reported = any(one in states for one in range(before + 1, number + 1))  # a frame between may have been refused
        if changed and not reported and not (killed and number == numbers[-1]):
            result.lost_states += 1
        before = number
    return result


class MessageAudit:
    """Counts of all frame, state and event messages. newest: capture time of the newest frame, by `boot`."""

    def __init__(self) -> None:
        self.frames: dict[Stream, dict[int, RecordedFrame]] = {}
        self.states: dict[Stream, set[int]] = {}
        self.messages: dict[tuple[str, int], tuple[str, int]] = {}
        self.newest: dict[str, str] = {}
        self.repeated = self.historical = self.contradictions = 0

    @property
    def boots(self) -> list[str]:
        """The starts of the service with at least one frame, in order."""
        return list(dict.fromkeys(boot for boot, _ in self.frames))

    def take(self, kind: str, camera: str, content: Mapping[str, Any]) -> None:
        """Count a message of kind "frame", "state" or "event"."""
        key, about = (content["boot"], content["id"]), (f"{kind} of {camera}", content["sequence"])
        stream = content["boot"], camera
        self.repeated += key in self.messages
        self.contradictions += self.messages.setdefault(key, about) != about
        self.historical += content["historical"]
        if kind == "state":
            self.states.setdefault(stream, set()).add(content["sequence"])
        if kind != "frame":
            return
        self.newest[content["boot"]] = max(self.newest.get(content["boot"], ""), content["captured"])
        withheld = {"withheld": content.get("withheld", 0)}
        recorded = RecordedFrame(content["id"], content["state"], content["dropped"] | withheld)
        self.contradictions += (
            self.frames.setdefault(stream, {}).setdefault(content["sequence"], recorded).id != recorded.id
        )

    def results(self, killed: Set[str]) -> dict[Stream, StreamResult]:
        """Check every stream. killed: boots that were killed, so that their newest state may be missing."""
        return {
            stream: check_stream(frames, self.states.get(stream, set()), stream[0] in killed)
            for stream, frames in self.frames.items()
        }
