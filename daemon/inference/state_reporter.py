"""What a frame gives to tell beside itself: the state, an event, and whether the frame is published at all."""

from dataclasses import dataclass
from typing import Any

from edgemeta.daemon.inference.settings import CameraSettings
from edgemeta.daemon.inference.smoothing import Change
from edgemeta.daemon.messages.records import EventMessage, StateMessage
from edgemeta.daemon.runtime.clock import NS


@dataclass(frozen=True)
class Updates:
    """state: where it is to be told. event: where it changed. withheld: the frame itself is not to be published."""

    state: StateMessage | None
    event: EventMessage | None
    withheld: bool


class StateReporter:
    """Tells one camera's state: when it changes or becomes known, and again when nothing was told for a heartbeat."""

    def __init__(self) -> None:
        self._state: StateMessage | None = None
        self._told_ns: int | None = None

    def tell(
        self,
        frame: dict[str, Any],
        change: Change | None,
        score: float | None,
        captured_ns: int,
        tuning: CameraSettings,
    ) -> Updates:
        """Give what is to be told with a frame (its message's fields); score is of its state, captured_ns monotonic."""
        if change is not None:
            self._state = _state(frame, change)
        due = self._told_ns is None or captured_ns - self._told_ns >= tuning.heartbeat_ns
        if change is None and not due:
            return Updates(None, None, withheld=tuning.only_changes)
        self._told_ns = captured_ns
        state = None if self._state is None else self._state.model_copy(update={"score": score})
        return Updates(state, None if change is None else _event(frame, change, score), withheld=False)


def _state(frame: dict[str, Any], change: Change) -> StateMessage:
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


def _event(frame: dict[str, Any], change: Change, score: float | None) -> EventMessage | None:
    """Give the event of a change; none where the first frames only settled that nothing is sure."""
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
