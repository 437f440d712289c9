"""What every tracker gives after a frame."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from edgemeta.daemon.inference.readers.reading import Reading
from edgemeta.daemon.inference.readers.settings import CameraSettings
from edgemeta.daemon.messages.records import EventKind


@dataclass(frozen=True)
class Event:
    """A change, as `EventMessage` has it; lasted_ns: how long what was before lasted, None where nothing was known."""

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


@dataclass(frozen=True)
class Tracked:
    """The state after a frame, by the model's task, and what has changed.

    changed: the state became known or another one. previous: the label before the last change of state. unknown: what
    is seen is unknown, and state is None.
    """

    state: str | None = None
    score: float | None = None
    previous: str | None = None
    counts: dict[str, int] | None = None
    zones: dict[str, dict[str, int]] | None = None
    changed: bool = False
    events: Sequence[Event] = field(default_factory=tuple)
    unknown: bool = False


class Tracker(Protocol):
    """Follows one camera from frame to frame."""

    def add(self, reading: Reading, settings: CameraSettings, captured_ns: int) -> Tracked:
        """Add a frame; captured_ns: monotonic, never decreasing."""
        ...


class NoTracker:
    """As `Tracker`, for tasks without a state."""

    def add(self, reading: Reading, settings: CameraSettings, captured_ns: int) -> Tracked:
        """As `Tracker.add`."""
        return Tracked()
