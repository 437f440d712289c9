"""Decides which messages a frame triggers: its own, a state update, an event."""

from dataclasses import dataclass

from edgemeta.daemon.inference.settings import CameraSettings
from edgemeta.daemon.inference.smoothing import Change
from edgemeta.daemon.messages.frame_fields import FrameFields
from edgemeta.daemon.messages.records import EventMessage, StateMessage
from edgemeta.daemon.runtime.clock import NS


@dataclass(frozen=True)
class Updates:
    """The messages beside a frame's own: state and event, None where not due; withheld: the frame is not published."""

    state: StateMessage | None
    event: EventMessage | None
    withheld: bool


class StateReporter:
    """Reports one camera's state when it changes or becomes known, and again after `publish.heartbeat_interval`."""

    def __init__(self) -> None:
        self._state: StateMessage | None = None
        self._reported_ns: int | None = None

    def update(
        self,
        frame: FrameFields,
        change: Change | None,
        score: float | None,
        captured_ns: int,
        settings: CameraSettings,
    ) -> Updates:
        """Return the updates that a frame triggers.

        frame: the fields of its message. score: of its state, None where unknown. captured_ns: monotonic.
        """
        if change is not None:
            self._state = _state(frame, change)
        due = self._reported_ns is None or captured_ns - self._reported_ns >= settings.heartbeat_ns
        if change is None and not due:
            return Updates(None, None, withheld=settings.only_changes)
        self._reported_ns = captured_ns
        state = None if self._state is None else self._state.model_copy(update={"score": score})
        return Updates(state, None if change is None else _event(frame, change, score), withheld=False)


def _state(frame: FrameFields, change: Change) -> StateMessage:
    return StateMessage(
        device=frame["device"],
        boot=frame["boot"],
        camera=frame["camera"],
        state=frame["state"],
        previous=change.previous,
        sequence=frame["sequence"],
        since=frame["captured"],
        clock_synchronized=frame["clock_synchronized"],
    )


def _event(frame: FrameFields, change: Change, score: float | None) -> EventMessage | None:
    """Return the event of a change; None where the first frames only showed that no label is certain."""
    if frame["state"] == change.previous:
        return None
    return EventMessage(
        device=frame["device"],
        boot=frame["boot"],
        camera=frame["camera"],
        state=frame["state"],
        previous=change.previous,
        score=score,
        lasted_s=None if change.lasted_ns is None else round(change.lasted_ns / NS, 3),
        sequence=frame["sequence"],
        captured=frame["captured"],
        clock_synchronized=frame["clock_synchronized"],
    )
