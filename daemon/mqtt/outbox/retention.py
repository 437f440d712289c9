"""How much the outbox keeps on disk: so many bytes, so long."""

import time
from collections.abc import Callable, Iterable

from edgemeta.daemon.config.broker import OutboxConfig
from edgemeta.daemon.mqtt.outbox.store import Row
from edgemeta.daemon.runtime.clock import NS, Clock

MEGABYTE = 1_000_000


class Retention:
    """Says which messages must go."""

    def __init__(self, config: OutboxConfig, clock: Clock) -> None:
        self._bytes = config.max_disk_mb * MEGABYTE
        self._age_ns = config.max_age * NS
        self._clock = clock
        self._began_ns = time.monotonic_ns()

    def excess(self, size: int) -> int:
        """Return how many of so many bytes are too many; none where it is not positive."""
        return size - self._bytes

    def too_old(self, row: Row, now: int) -> bool:
        """Age of a message by the monotonic clock; one left by an earlier start by UTC where that could be believed.

        Where it could not, the age counts from this start: a clock that jumps must not make messages old.
        """
        if row.own:
            age_ns = now - row.made_ns
        elif row.utc_ns is not None and self._clock.synchronized:
            age_ns = time.time_ns() - row.utc_ns
        else:
            age_ns = now - self._began_ns
        return age_ns > self._age_ns

    def doomed(
        self, rows: Iterable[Row], size: int, now: int, spared: Callable[[int], bool]
    ) -> tuple[list[Row], list[Row]]:
        """Choose from the oldest rows of an outbox of so many bytes: those too many, and those too old.

        None whose number is `spared`, as it is on its way or gone.
        """
        excess = self.excess(size)
        full: list[Row] = []
        old: list[Row] = []
        for row in rows:
            if spared(row.number):
                continue
            if excess > 0:
                full.append(row)
                excess -= row.size
            elif self.too_old(row, now):
                old.append(row)
            else:
                break
        return full, old
