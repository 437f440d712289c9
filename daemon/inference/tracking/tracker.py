"""What every tracker gives after a frame."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, NamedTuple, Protocol

from edgemeta.daemon.inference.readers.reading import Reading
from edgemeta.daemon.inference.readers.settings import CameraSettings
from edgemeta.daemon.messages.events import EventKind, ObjectChange
from edgemeta.daemon.messages.records import Box, Fields


@dataclass(frozen=True)
class Event:
    """A change, as `EventMessage` has it; lasted_ns: how long what was before lasted, None where nothing was known.

    object: fields of a `FollowedObject`, but with its times in ns of the monotonic clock.
    """

    kind: EventKind
    state: str | None = None
    previous: str | None = None
    label: str | None = None
    zone: str | None = None
    count: int | None = None
    previous_count: int | None = None
    score: float | None = None
    lasted_ns: int | None = None
    unknown: bool = False
    change: ObjectChange | None = None
    object: Fields | None = None
    line: str | None = None
    direction: Literal["left", "right"] | None = None


class Tracked(NamedTuple):
    """The state after a frame, by the model's task, and what has changed.

    changed: the state became known or another one. previous: the label before the last change of state. unknown: what
    is seen is unknown, and state is None. ids: of the frame's objects, in their order; None: not confirmed, or objects
    are not followed. best: the objects of which this frame is the best picture so far, by id, and their boxes in it.
    """

    state: str | None = None
    score: float | None = None
    previous: str | None = None
    counts: dict[str, int] | None = None
    zones: dict[str, dict[str, int]] | None = None
    changed: bool = False
    events: Sequence[Event] = ()
    unknown: bool = False
    ids: Sequence[int | None] = ()
    best: Mapping[int, Box] = MappingProxyType({})


class Tracker(Protocol):
    """Follows one camera from frame to frame."""

    def add(self, reading: Reading, settings: CameraSettings, captured_ns: int) -> Tracked:
        """Add a frame; captured_ns: monotonic, never decreasing."""
        ...

    def end(self) -> Sequence[Event]:
        """End the objects that are followed, if any: no frame comes, or another tracker takes over."""
        ...


class NoTracker:
    """As `Tracker`, for tasks without a state; base class of those that follow no objects."""

    def add(self, reading: Reading, settings: CameraSettings, captured_ns: int) -> Tracked:
        """As `Tracker.add`."""
        return Tracked()

    def end(self) -> Sequence[Event]:
        """As `Tracker.end`."""
        return ()
