"""Decides which messages a frame triggers: its own, a state update, events."""

from collections.abc import Sequence
from typing import NamedTuple

from edgemeta.daemon.inference.readers.settings import CameraSettings
from edgemeta.daemon.inference.tracking.tracker import Event, Tracked
from edgemeta.daemon.messages.events import EventMessage, FollowedObject
from edgemeta.daemon.messages.records import Fields, StateMessage
from edgemeta.daemon.runtime.clock import NS, Clock


class Updates(NamedTuple):
    """The messages beside a frame's own: the state, None where not due, and events.

    withheld: the frame is not published.
    """

    state: StateMessage | None
    events: tuple[EventMessage, ...]
    withheld: bool


class StateReporter:
    """Reports one camera's state when it changes or becomes known, and again after `publish.heartbeat_interval`.

    It is also reported again when the clock was set, with the right `since`.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._state: StateMessage | None = None
        self._since_ns = 0
        self._reported_ns: int | None = None
        self._sets = clock.sets

    def update(self, frame: Fields, tracked: Tracked, captured_ns: int, settings: CameraSettings) -> Updates:
        """Return the updates that a frame triggers.

        frame: the fields of its message. tracked: the state after it. captured_ns: monotonic.
        """
        if tracked.changed:
            self._state, self._since_ns = _state(frame, tracked), captured_ns
        clock_was_set = self._sets != (sets := self._clock.sets)
        due = self._reported_ns is None or captured_ns - self._reported_ns >= settings.heartbeat_ns or clock_was_set
        events = self.events(frame, tracked.events) if tracked.events else ()
        if not tracked.changed and not due:
            return Updates(None, events, withheld=settings.only_changes and not events)
        self._reported_ns, self._sets = captured_ns, sets
        if clock_was_set and self._state is not None:
            times = {"since": self._clock.utc(self._since_ns), "clock_synchronized": frame["clock_synchronized"]}
            self._state = self._state.model_copy(update=times)
        state = None if self._state is None else self._state.model_copy(update={"score": tracked.score})
        return Updates(state, events, withheld=False)

    def events(self, frame: Fields, events: Sequence[Event]) -> tuple[EventMessage, ...]:
        """Return the messages of what happened in a frame."""
        return tuple(_event(frame, event, self._clock) for event in events)


def _state(frame: Fields, tracked: Tracked) -> StateMessage:
    same = {name: getattr(tracked, name) for name in ("state", "unknown", "counts", "zones", "previous")}
    return StateMessage(**_where(frame), since=frame["captured"], **same)


def _event(frame: Fields, event: Event, clock: Clock) -> EventMessage:
    same = {name: value for name, value in vars(event).items() if name not in ("object", "lasted_ns")}
    return EventMessage(
        **_where(frame),
        **same,
        captured=frame["captured"],
        object=None if event.object is None else _object(event.object, clock),
        lasted_s=None if event.lasted_ns is None else round(event.lasted_ns / NS, 3),
    )


def _where(frame: Fields) -> Fields:
    return {name: frame[name] for name in ("device", "boot", "camera", "sequence", "clock_synchronized")}


def _object(followed: Fields, clock: Clock) -> FollowedObject:
    best = {**followed["best"], "captured": clock.utc(followed["best"]["captured"])}
    return FollowedObject(**{**followed, "began": clock.utc(followed["began"]), "best": best})
