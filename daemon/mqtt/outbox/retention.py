"""Limits of the outbox on disk: size and age."""

import time
from collections.abc import Callable, Iterable

from edgemeta.daemon.config.broker import OutboxConfig
from edgemeta.daemon.mqtt.outbox.rows import Row
from edgemeta.daemon.runtime.clock import NS, Clock

MEGABYTE = 1_000_000


class Retention:
    """Selects the messages to drop."""

    def __init__(self, config: OutboxConfig, clock: Clock) -> None:
        self._bytes = config.max_disk_mb * MEGABYTE
        self._age_ns = config.max_age * NS
        self._clock = clock
        self._began_ns = time.monotonic_ns()

    def excess(self, size: int) -> int:
        """Return by how many bytes `size` exceeds the limit; not positive if it does not."""
        return size - self._bytes

    def too_old(self, row: Row, now: int) -> bool:
        """Whether a message is too old: by the monotonic clock, or by UTC if it is of an earlier boot.

        If the clock was not synchronized then or is not now, its age counts from this start: a clock that is set must
        not make messages old.
        """
        if row.this_boot:
            age_ns = now - row.made_ns
        elif row.utc_ns is not None and self._clock.synchronized:
            age_ns = time.time_ns() - row.utc_ns
        else:
            age_ns = now - self._began_ns
        return age_ns > self._age_ns

    def doomed(
        self, rows: Iterable[Row], size: int, now: int, spared: Callable[[int], bool]
    ) -> tuple[list[Row], list[Row]]:
        """Return those of the oldest rows of an outbox of `size` bytes that are too many, and those that are too old.

        Rows for whose number `spared` is true, in flight or settled, are skipped.
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
