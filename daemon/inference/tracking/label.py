"""The state of a classification: its smoothed label."""

from edgemeta.daemon.inference.readers.reading import Reading
from edgemeta.daemon.inference.readers.settings import CameraSettings
from edgemeta.daemon.inference.tracking.smoothing import Smoother
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
        best = reading.labels[0]
        change = smoother.add(best["label"], best["score"], captured_ns)
        state = smoother.label
        score = None if state is None else reading.score_of(state)
        if change is None:
            return Tracked(state, score, self._previous)
        self._previous = change.previous
        # The first frames may only show that no label is certain: that is known now, and no event.
        events = [Event(EventKind.STATE, state, change.previous, score=score, lasted_ns=change.lasted_ns)]
        return Tracked(state, score, change.previous, changed=True, events=events if state != change.previous else ())
