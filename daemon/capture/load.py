"""What the load of the service means for one camera."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

APART = 0.05
"""Seconds between two openings, so that the load of one is seen before many others begin."""

LOOK_AGAIN = 0.5
"""Seconds until a camera that may not be opened asks again."""


@dataclass(frozen=True)
class CameraLoad:
    """Asked and told by a camera's thread.

    opens_in: seconds until its source may be opened, 0 for now; the argument says whether it has run before.
    is_behind: whether another frame would only replace one that nobody has taken, on a machine without time for it.
    missed: frames that were due and not read, which are therefore not captured.
    """

    opens_in: Callable[[bool], float] = lambda _: 0.0
    is_behind: Callable[[], bool] = lambda: False
    missed: Callable[[int], None] = lambda _: None


UNHURRIED = CameraLoad()
"""That of a service with time for everything."""


class Openings:
    """Decides when cameras are opened: one after the other, and no new one while the service is starved.

    A camera that ran before is no new load. is_starved: whether the service is, with the cameras that run now.
    """

    def __init__(self, is_starved: Callable[[], bool]) -> None:
        self._is_starved = is_starved
        self._lock = threading.Lock()
        self._next = 0.0

    def opens_in(self, has_run: bool) -> float:
        """As `CameraLoad.opens_in`; after 0 the caller opens."""
        if not has_run and self._is_starved():
            return LOOK_AGAIN
        with self._lock:
            now = time.monotonic()
            if now < self._next:
                return self._next - now
            self._next = now + APART
            return 0.0
