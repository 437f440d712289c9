"""Reports the service's status to the service manager, and feeds its watchdog while no thread hangs.

A camera or a broker that is away does not starve the watchdog: their threads set the deadline of the next try. A hung
thread does: the manager then aborts the service and restarts it.
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

CHECKS_WITHIN = 0.2
"""Seconds that a check in progress has to finish at the stop. It only reads counters."""


class Watchdog:
    """Checks the health at half the watchdog's period, or more often."""

    def __init__(
        self, notifier: Notifier, health: Callable[[], Health], on_fatal: Callable[[BaseException], None]
    ) -> None:
        self._notifier = notifier
        self._health = health
        self._last_change = ""
        self._rate = "starting"
        self._frames, self._checked = 0, time.monotonic()
        self._hangs = False
        period = STATUS_EVERY if notifier.watchdog is None else min(STATUS_EVERY, notifier.watchdog / 2)
        self._periodic = Periodic("watchdog", period, self._check, on_fatal)

    def start(self) -> None:
        """Report that the service is ready, and start to check."""
        self._notifier.ready(self._status(self._health()))
        self._periodic.start()

    def stop(self, restarts: bool = False) -> None:
        """Report that the service stops, and nothing after it; or that it reloads, if it restarts in this process."""
        self._periodic.stop(CHECKS_WITHIN)
        if restarts:
            self._notifier.reloading()
        else:
            self._notifier.stopping()

    def change_started(self) -> None:
        """Report that the config is being reloaded."""
        self._notifier.reloading()

    def change_finished(self, message: str) -> None:
        """Report that the change has ended. Its result stays in the status until the next one."""
        self._last_change = message
        self._notifier.ready(self._status(self._health()))

    def _check(self) -> None:
        health = self._health()
        now = time.monotonic()
        self._rate = f"{(health.frames - self._frames) / (now - self._checked):.1f} frames/s"
        self._frames, self._checked = health.frames, now
        if health.hanging_threads:
            self._notifier.status(self._status(health))
        else:
            self._notifier.feed(self._status(health))
        self._log(health.hanging_threads)

    def _status(self, health: Health) -> str:
        """Return one line, problems first."""
        cameras = (f"camera {name} {description}" for name, description in health.cameras.items())
        refused = f"model refused, another one is in use: {health.refused}" if health.refused else None
        change = health.swap or self._last_change
        others = (f"broker {health.broker}", health.inbox, health.page, change)
        overloaded = f"overloaded: {health.overloaded}" if health.overloaded else None
        parts = (*health.hanging_threads, overloaded, refused, self._rate, *cameras, *others)
        return "; ".join(part for part in parts if part)

    def _log(self, hanging_threads: tuple[str, ...]) -> None:
        """Log when threads hang, and when none does any more."""
        if hanging_threads and not self._hangs:
            log.error("%s; the watchdog is not fed", "; ".join(hanging_threads))
        elif self._hangs and not hanging_threads:
            log.warning("no thread hangs any more")
        self._hangs = bool(hanging_threads)
