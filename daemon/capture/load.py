"""What the load of the service means for one camera."""

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

APART = 0.05
"""Seconds between two openings, so that the load of one is seen before many others begin."""

AT_A_TIME = max(2, os.cpu_count() or 2)
"""New cameras that are opened at one time in starved seconds: more would hinder each other until none is in time."""

LOOK_AGAIN = 0.5
"""Seconds until a camera that may not be opened asks again."""


@dataclass(frozen=True)
class CameraLoad:
    """The load of the service, as a camera's thread asks for it and reports to it.

    opens_in: seconds until its source may be opened, 0 for now.
    opened: its source has given a frame, or failed.
    is_behind: whether another frame would only replace one that nobody has taken, on a machine without time for it.
    missed: frames that were due and not read, which are therefore not captured.
    """

    opens_in: Callable[[], float] = lambda: 0.0
    opened: Callable[[], None] = lambda: None
    is_behind: Callable[[], bool] = lambda: False
    missed: Callable[[int], None] = lambda _: None


UNHURRIED = CameraLoad()
"""That of a service with time for everything."""


class Openings:
    """Decides when cameras are opened: one after the other, few at a time if starved, no new one if overloaded.

    A camera that ran before is no new load.
    is_starved: whether the last second was starved. is_full: whether the cameras that run overload the service.
    """

    def __init__(self, is_starved: Callable[[], bool], is_full: Callable[[], bool]) -> None:
        self._is_starved = is_starved
        self._is_full = is_full
        self._lock = threading.Lock()
        self._next = 0.0
        self._opening: set[str] = set()

    def opens_in(self, camera: str, has_run: bool) -> float:
        """As `CameraLoad.opens_in`; after 0 the caller opens."""
        if not has_run and self._is_full():
            return LOOK_AGAIN
        is_starved = self._is_starved()
        with self._lock:
            now = time.monotonic()
            if not has_run and is_starved and len(self._opening) >= AT_A_TIME:
                return APART
            if now < self._next:
                return self._next - now
            self._next = now + APART
            self._opening.add(camera)
            return 0.0

    def opened(self, camera: str) -> None:
        """As `CameraLoad.opened`."""
        with self._lock:
            self._opening.discard(camera)
