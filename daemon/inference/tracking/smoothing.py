"""The state of a camera: the label that enough of its last frames agree on, or None where no label is certain."""

from collections import Counter, deque
from dataclasses import dataclass

from edgemeta.daemon.inference.readers.settings import Rule


@dataclass(frozen=True)
class Change:
    """A change of state: the previous state and how long it lasted, None where none was known."""

    previous: str | None
    lasted_ns: int | None


class Smoother:
    """Applies a rule to the frames of one camera.

    label: the state; None while no label is certain, and before `known`. known: whether the frames so far determine it:
    after the first agreement, or when a window is full without one. since_ns: capture time of the frame that caused it.
    """

    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        self._recent: deque[str | None] = deque()
        self._votes: Counter[str | None] = Counter()
        self.label: str | None = None
        self.known = False
        self.since_ns = 0

    def set_rule(self, rule: Rule) -> None:
        """Use another rule from the next frame on; the state and the recent frames stay."""
        self._rule = rule
        while len(self._recent) > rule.window:
            self._forget()

    def add(self, label: str, score: float, captured_ns: int) -> Change | None:
        """Add the best label of a frame and its score; return the change, if the state changed or became known.

        captured_ns: monotonic, never decreasing.
        """
        rule = self._rule
        vote = label if score >= (rule.leave if label == self.label else rule.enter) else None
        if len(self._recent) == rule.window:
            self._forget()
        self._recent.append(vote)
        self._votes[vote] += 1
        agreed = self._votes[vote] >= rule.agree
        if not self.known:
            if not agreed and len(self._recent) < rule.window:
                return None
            return self._become(vote if agreed else None, captured_ns)
        if not agreed or vote == self.label or captured_ns - self.since_ns < rule.hold_ns:
            return None
        return self._become(vote, captured_ns)

    def _become(self, label: str | None, captured_ns: int) -> Change:
        change = Change(self.label, captured_ns - self.since_ns if self.known else None)
        self.label, self.known, self.since_ns = label, True, captured_ns
        return change

    def _forget(self) -> None:
        oldest = self._recent.popleft()
        self._votes[oldest] -= 1
        if not self._votes[oldest]:
            del self._votes[oldest]
