"""The state of a classification: its smoothed label, or that what is seen is unknown."""

from collections import deque
from dataclasses import dataclass
from enum import Enum
from typing import Literal, TypeAlias

from edgemeta.daemon.inference.readers.reading import Reading
from edgemeta.daemon.inference.readers.settings import CameraSettings, Rule
from edgemeta.daemon.inference.tracking.tracker import Event, NoTracker, Tracked
from edgemeta.daemon.messages.events import EventKind


class Unknown(Enum):
    """The vote of a frame that shows nothing the model knows."""

    UNKNOWN = "unknown"


Vote: TypeAlias = str | Unknown | None
"""A label, unknown, or None: no label is certain."""


@dataclass(frozen=True)
class Change:
    """A change of state: the previous state and how long it lasted, None where none was known."""

    previous: Vote
    lasted_ns: int | None


class Smoother:
    """Applies a rule to the frames of one camera.

    state: a label, unknown, or None: no label is certain, or not `known` yet. known: whether the frames so far
    determine it: after the first agreement, or when a window is full without one. since_ns: capture time of the frame
    that caused it.
    """

    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        self._recent: deque[Vote] = deque()
        self.state: Vote = None
        self.known = False
        self.since_ns = 0

    def set_rule(self, rule: Rule) -> None:
        """Use another rule from the next frame on; the state and the recent frames stay."""
        self._rule = rule
        while len(self._recent) > rule.window:
            self._recent.popleft()

    def add(self, best: str | Literal[Unknown.UNKNOWN], score: float, captured_ns: int) -> Change | None:
        """Add the best label of a frame, or unknown; return the change, if the state changed or became known.

        score: of the label, without meaning for unknown. captured_ns: monotonic, never decreasing.
        """
        rule = self._rule
        is_sure = best is Unknown.UNKNOWN or score >= (rule.leave if best == self.state else rule.enter)
        vote = best if is_sure else None
        if len(self._recent) == rule.window:
            self._recent.popleft()
        self._recent.append(vote)
        agreed = self._recent.count(vote) >= rule.agree
        if not self.known:
            if not agreed and len(self._recent) < rule.window:
                return None
            return self._become(vote if agreed else None, captured_ns)
        if not agreed or vote == self.state or captured_ns - self.since_ns < rule.hold_ns:
            return None
        return self._become(vote, captured_ns)

    def _become(self, state: Vote, captured_ns: int) -> Change:
        change = Change(self.state, captured_ns - self.since_ns if self.known else None)
        self.state, self.known, self.since_ns = state, True, captured_ns
        return change


class LabelTracker(NoTracker):
    """As `Tracker`."""

    def __init__(self) -> None:
        self._smoother: Smoother | None = None
        self._previous: str | None = None

    def add(self, reading: Reading, settings: CameraSettings, captured_ns: int) -> Tracked:
        """As `Tracker.add`."""
        if self._smoother is None:
            self._smoother = Smoother(settings.rule)
        smoother = self._smoother
        smoother.set_rule(settings.rule)
        best = Unknown.UNKNOWN if reading.unknown else reading.labels[0]["label"]
        change = smoother.add(best, 0.0 if reading.unknown else reading.labels[0]["score"], captured_ns)
        state, is_unknown = _label(smoother.state), smoother.state is Unknown.UNKNOWN
        score = None if state is None else reading.score_of(state)
        if change is None:
            return Tracked(state, score, self._previous, unknown=is_unknown)
        self._previous = previous = _label(change.previous)
        # The first frames may only show that no label is certain: that is known now, and no event.
        event = Event(EventKind.STATE, state, previous, score=score, lasted_ns=change.lasted_ns, unknown=is_unknown)
        events = [event] if smoother.state != change.previous else []
        return Tracked(state, score, previous, changed=True, events=events, unknown=is_unknown)


def _label(state: Vote) -> str | None:
    """The label of a state; None where it has none."""
    return state if isinstance(state, str) else None
