"""What a subscriber can prove from messages alone: that none is missing and none is there twice.

For each start (`boot`) of the service and each camera:
- frames: between the first number and the greatest seen, exactly those are missing that `dropped` and `withheld` count;
- states: each change of `state` from one frame to the next has its state message;
- repeats: a message comes again only as the same message, with the same id.
"""

from collections import Counter
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

Stream: TypeAlias = tuple[str, str]
"""One start of the service, by `boot`, and one of its cameras."""


class Seen(NamedTuple):
    """What is kept of a frame message; `missing` are the frames before it that have none, by reason."""

    id: int
    state: str | None
    missing: Mapping[str, int]


@dataclass
class Verdict:
    """What is wrong with one stream, in numbers."""

    frames: int = 0
    lost_frames: int = 0
    lost_states: int = 0
    missing: Counter[str] = field(default_factory=Counter)


def judge(frames: Mapping[int, Seen], states: Set[int], killed: bool) -> Verdict:
    """Look for missing messages of one stream. Only the newest state of a killed service may be missing."""
    numbers = sorted(frames)
    newest = frames[numbers[-1]]
    verdict = Verdict(frames=len(numbers), missing=Counter(newest.missing))
    verdict.lost_frames = abs(numbers[-1] - len(numbers) - sum(newest.missing.values()))
    state = None
    for number in numbers:
        changed, state = frames[number].state != state, frames[number].state
        if changed and number not in states and not (killed and number == numbers[-1]):
            verdict.lost_states += 1
    return verdict


class Ledger:
    """Every frame, state and event message, counted; `newest` is when the newest frame of a start was captured."""

    def __init__(self) -> None:
        self.frames: dict[Stream, dict[int, Seen]] = {}
        self.states: dict[Stream, set[int]] = {}
        self.messages: dict[tuple[str, int], tuple[str, int]] = {}
        self.newest: dict[str, str] = {}
        self.repeated = self.historical = self.contradictions = 0

    @property
    def boots(self) -> list[str]:
        """The starts of the service of which there is a frame, in order."""
        return list(dict.fromkeys(boot for boot, _ in self.frames))

    def take(self, kind: str, camera: str, content: Mapping[str, Any]) -> None:
        """Count a message of kind "frame", "state" or "event"."""
        name, what = (content["boot"], content["id"]), (f"{kind} of {camera}", content["sequence"])
        stream = content["boot"], camera
        self.repeated += name in self.messages
        self.contradictions += self.messages.setdefault(name, what) != what
        self.historical += content["historical"]
        if kind == "state":
            self.states.setdefault(stream, set()).add(content["sequence"])
        if kind != "frame":
            return
        self.newest[content["boot"]] = max(self.newest.get(content["boot"], ""), content["captured"])
        withheld = {"withheld": content.get("withheld", 0)}
        seen = Seen(content["id"], content["state"], content["dropped"] | withheld)
        self.contradictions += self.frames.setdefault(stream, {}).setdefault(content["sequence"], seen).id != seen.id

    def verdicts(self, killed: Set[str]) -> dict[Stream, Verdict]:
        """Judge every stream; `killed` are the boots that had no time to send their newest state."""
        return {
            stream: judge(frames, self.states.get(stream, set()), stream[0] in killed)
            for stream, frames in self.frames.items()
        }
