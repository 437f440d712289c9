"""Conditions that are checked twice a second and reported when they change, and only if they last."""

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from edgemeta.daemon.capture.camera import CameraStatus
from edgemeta.daemon.metrics.load import LoadMonitor
from edgemeta.daemon.runtime.clock import Clock
from edgemeta.daemon.runtime.debounce import Debounced
from edgemeta.daemon.runtime.periodic import Periodic

log = logging.getLogger(__name__)

LOOK_EVERY = 0.5
"""Seconds between two looks."""

LASTS = 3.0
"""Seconds after which a problem counts. A camera that reconnects within that time is ready and has no problem."""


@dataclass(eq=False)
class Conditions:
    """The clock, the load, readiness, and the problem of each camera, in a thread of their own.

    statuses: of each camera, None before its start. is_ready: whether everything works at this moment. again: publishes
    all that is retained with a time. changed: publishes what is said about the service; with a camera, its status.
    """

    _cameras: Collection[str]
    _clock: Clock
    _load: LoadMonitor
    _statuses: Callable[[], Mapping[str, CameraStatus | None]]
    _is_ready: Callable[[], bool]
    _again: Callable[[], None]
    _changed: Callable[[str | None], None]
    _on_fatal: Callable[[BaseException], None]

    def __post_init__(self) -> None:
        self._sets = self._clock.sets
        self._ready = Debounced(False, rises=0.0, falls=LASTS)
        self._problems = {name: Debounced(False, rises=LASTS, falls=LASTS) for name in self._cameras}
        self.overloaded: str | None = None
        """What was measured when the service became overloaded; None while it is not."""
        self._periodic = Periodic("conditions", LOOK_EVERY, self._look, self._on_fatal)

    def start(self) -> None:
        """Start to look."""
        self._periodic.start()

    def stop(self, timeout: float) -> None:
        """Stop."""
        self._periodic.stop(timeout)

    @property
    def ready(self) -> bool:
        """Whether everything works, or worked until less than `LASTS` ago."""
        return self._ready.value or self._ready.set(self._is_ready())

    def has_problem(self, camera: str) -> bool:
        """Whether the camera has had a problem for `LASTS`, or had one until less than that ago."""
        return self._problems[camera].value

    def _look(self) -> None:
        self._ready.set(self._is_ready())
        self._watch_load()
        for camera, status in self._statuses().items():
            if status is not None and self._problems[camera].set(status.has_problem):
                self._changed(camera)
        sets = self._clock.sets
        if sets != self._sets:
            self._sets = sets
            self._again()

    def _watch_load(self) -> None:
        overloaded = self._load.overloaded
        if (overloaded is None) == (self.overloaded is None):
            return
        self.overloaded = overloaded
        if overloaded is None:
            log.info("not overloaded any more")
        else:
            log.warning("overloaded: %s", overloaded)
        self._changed(None)
