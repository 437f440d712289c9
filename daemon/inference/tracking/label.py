"""The state of a classification: its smoothed label, or that what is seen is unknown."""

from edgemeta.daemon.inference.readers.reading import Reading
from edgemeta.daemon.inference.readers.settings import CameraSettings
from edgemeta.daemon.inference.tracking.smoothing import Smoother, Unknown, Vote
from edgemeta.daemon.inference.tracking.tracker import Event, Tracked
from edgemeta.daemon.messages.records import EventKind


class LabelTracker:
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
