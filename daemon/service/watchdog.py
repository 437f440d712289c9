"""Tells the service manager how the service fares, and feeds its watchdog while no thread hangs.

A camera or a broker that is away is no reason to starve the watchdog: their threads keep promising the next try. A
thread that hangs is one: the manager then aborts the service and starts it anew.
"""

import logging
import time
from collections.abc import Callable

from edgemeta.daemon.metrics.health import Health
from edgemeta.daemon.runtime.periodic import Periodic
from edgemeta.daemon.runtime.sd_notify import Notifier

log = logging.getLogger(__name__)

STATUS_EVERY = 5.0
"""Greatest number of seconds between two statuses."""

LOOKS_WITHIN = 0.2
"""Seconds that a look at work has to finish at the end. It only reads what others have counted."""


class Watchdog:
    """Looks at the vitals at half the watchdog's period, or more often."""

    def __init__(
        self, notifier: Notifier, health: Callable[[], Health], on_fatal: Callable[[BaseException], None]
    ) -> None:
        self._notifier = notifier
        self._health = health
        self._changed = ""
        self._rate = "starting"
        self._frames, self._looked = 0, time.monotonic()
        self._hangs = False
        period = STATUS_EVERY if notifier.watchdog is None else min(STATUS_EVERY, notifier.watchdog / 2)
        self._periodic = Periodic("supervisor", period, self._look, on_fatal)

    def start(self) -> None:
        """Say that the service is ready, and begin to look."""
        self._notifier.ready(self._status(self._health()))
        self._periodic.start()

    def stop(self) -> None:
        """Say that the service stops, and nothing after it."""
        self._periodic.stop(LOOKS_WITHIN)
        self._notifier.stopping()

    def change_started(self) -> None:
        """Tell that the config is being read again."""
        self._notifier.reloading()

    def changed(self, description: str) -> None:
        """Tell that it was read. What is said of the outcome stays in the status until the next time."""
        self._changed = description
        self._notifier.ready(self._status(self._health()))

    def _look(self) -> None:
        health = self._health()
        now = time.monotonic()
        self._rate = f"{(health.frames - self._frames) / (now - self._looked):.1f} frames/s"
        self._frames, self._looked = health.frames, now
        if health.hanging_threads:
            self._notifier.status(self._status(health))
        else:
            self._notifier.feed(self._status(health))
        self._log(health.hanging_threads)

    def _status(self, health: Health) -> str:
        """One line, what is wrong first."""
        cameras = (f"camera {name} {description}" for name, description in health.cameras.items())
        refused = f"model refused, another serves: {health.refused}" if health.refused else None
        change = health.swap or self._changed
        updates = (f"broker {health.broker}", health.inbox, health.page, change)
        parts = (*health.hanging_threads, refused, self._rate, *cameras, *updates)
        return "; ".join(part for part in parts if part)

    def _log(self, hanging_threads: tuple[str, ...]) -> None:
        """Log when threads begin to hang, and when none does any more."""
        if hanging_threads and not self._hangs:
            log.error("%s; the watchdog is not fed", "; ".join(hanging_threads))
        elif self._hangs and not hanging_threads:
            log.warning("nothing hangs any more")
        self._hangs = bool(hanging_threads)
