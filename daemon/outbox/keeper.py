"""The keeper: a thread that writes to disk what waits in an outbox, reads it for the replay, keeps it within bounds.

While the broker answers quickly there is nothing to write. Without a disk the messages stay in memory, and it says so.
"""

import logging
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from edgemeta.daemon.backoff import Backoff
from edgemeta.daemon.clock import NS, Clock
from edgemeta.daemon.config.broker import OutboxConfig
from edgemeta.daemon.outbox.bounds import Bounds
from edgemeta.daemon.outbox.outbox import OnDisk, Outbox
from edgemeta.daemon.outbox.parcel import Parcel
from edgemeta.daemon.outbox.salvage import open_store, replaced
from edgemeta.daemon.outbox.store import DamagedError, Store, StoreError
from edgemeta.daemon.threads import guarded_thread

log = logging.getLogger(__name__)

TICK = 0.05
"""Seconds between two looks while something waits: without a broker, a message is then on disk."""

SLOW_TICK = 0.2
"""The same on a good day, when there is nothing to do but to see that the broker still answers."""

SYNC_AFTER_NS = NS
"""How long a written message may wait to be on the medium, safe from a power cut."""

LOAD = 500
"""Messages read at once."""


class Keeper:
    """Keeps the messages of one outbox in one file; path None is memory only. `crashed` hears of unforeseen faults."""

    def __init__(
        self,
        outbox: Outbox,
        config: OutboxConfig,
        path: Path | None,
        boot: str,
        clock: Clock,
        crashed: Callable[[BaseException], None],
    ) -> None:
        self._outbox = outbox
        self._path = path
        self._boot = boot
        self._clock = clock
        self._bounds = Bounds(config, clock)
        self._memory = config.memory
        self._store: Store | None = None
        self._reason = "it is kept in memory only, as the config says"
        self._last = 0
        self._retry = Backoff(1.0, 60.0)
        self._retry_at = 0.0
        self._synced_ns = time.monotonic_ns()
        self._unsynced = False
        self._aged_ns = 0
        self._closing = threading.Event()
        self._thread = guarded_thread("outbox", self._run, crashed)

    def start(self) -> None:
        """Open the file and begin."""
        self.open()
        self._thread.start()

    def close(self, timeout: float) -> None:
        """Write everything that was not answered to the medium and close the file; give up after `timeout` seconds."""
        self._closing.set()
        self._outbox.changed.set()
        self._thread.join(timeout)
        if self._thread.is_alive():
            log.error("outbox: the disk does not answer, %d messages may be lost", self._outbox.in_memory_only)

    def open(self) -> None:
        """Open the file, where there should be one; on failure say why not, and when to try again."""
        if self._path is None:
            self._outbox.lose_disk(self._reason)
            return
        try:
            self._use(open_store(self._path, self._boot, self._last + 1))
        except StoreError as error:
            self._fail(error)

    def tick(self) -> None:
        """Do what is due."""
        if self._store is None and self._path is not None and time.monotonic() >= self._retry_at:
            self.open()
        try:
            if self._store is not None:
                self._write(self._store, everything=False)
                self._keep_bounds(self._store)
                self._read(self._store)
        except DamagedError as error:
            self._replace(error)
        except StoreError as error:
            self._fail(error)
        self._outbox.expire()

    def finish(self) -> None:
        """Write everything, and close the file."""
        try:
            if self._store is not None:
                self._write(self._store, everything=True)
                self._store.close()
        except StoreError as error:
            self._fail(error)
        if lost := self._outbox.in_memory_only:
            log.error("outbox: %d messages are lost with this process: %s", lost, self._reason)

    def _run(self) -> None:
        while not self._closing.is_set():
            self._outbox.changed.wait(SLOW_TICK if self._outbox.good_day else TICK)
            self._outbox.changed.clear()
            self.tick()
        self.finish()

    def _write(self, store: Store, everything: bool) -> None:
        """Commit what has waited long enough, and the removal of what the broker has answered."""
        added, removed = self._outbox.take_due(everything)
        now = time.monotonic_ns()
        sync = everything or (self._unsynced and now - self._synced_ns >= SYNC_AFTER_NS)
        if not (added or removed or sync):
            return
        try:
            numbers = store.apply(list(zip(added, self._stamps(added), strict=True)), removed, sync)
        except StoreError:
            self._outbox.put_back(removed)
            raise
        if sync:
            self._synced_ns = now
        self._unsynced = not sync and (self._unsynced or bool(added))
        self._outbox.written(added, numbers, _figures(store))
        if removed:
            store.give_space_back()

    def _stamps(self, parcels: list[Parcel]) -> list[int | None]:
        """UTC in ns when each was made; None while the clock cannot be believed."""
        if not self._clock.synchronized:
            return [None] * len(parcels)
        monotonic_to_utc = time.time_ns() - time.monotonic_ns()
        return [parcel.message.made_ns + monotonic_to_utc for parcel in parcels]

    def _read(self, store: Store) -> None:
        """Read more late messages where the link has few left."""
        span = self._outbox.wanted()
        if span is not None:
            parcels, reached = store.load(*span, LOAD)
            self._outbox.load(span, parcels, reached, _figures(store))

    def _keep_bounds(self, store: Store) -> None:
        """Drop the oldest messages on disk while they are too many bytes, or too old (looked at every second)."""
        now = time.monotonic_ns()
        too_old = False
        if now - self._aged_ns >= NS:
            self._aged_ns = now
            too_old = any(self._bounds.too_old(row, now) for row in store.oldest(1))
        while too_old or self._bounds.excess(store.bytes) > 0:
            rows = store.oldest(LOAD)
            full, old = self._outbox.withdraw(partial(self._bounds.doomed, rows, store.bytes, now))
            if not (full or old):
                return
            store.apply([], [*full, *old])
            self._outbox.withdrawn(full, old, _figures(store))

    def _use(self, store: Store) -> None:
        if self._retry_at:
            log.info("outbox: on disk again, %s", store.path)
        self._store, self._retry_at = store, 0.0
        self._retry.reset()
        self._outbox.use_disk(_figures(store))

    def _replace(self, error: DamagedError) -> None:
        """The file turned out to be damaged: go on with a new one."""
        assert self._store is not None
        assert self._path is not None
        self._store.close()
        try:
            self._use(replaced(error, self._path, self._boot, self._store.last + 1))
        except StoreError as failure:
            self._fail(failure)

    def _fail(self, error: StoreError) -> None:
        """Go on in memory, and try the disk again later."""
        if self._store is not None:
            self._last = self._store.last
            self._store.close()
            self._store = None
        if not self._retry_at or str(error) != self._reason:
            log.warning("%s; messages are kept in memory, the newest %d MB", error, self._memory)
        self._reason = str(error)
        self._retry_at = time.monotonic() + self._retry.next()
        self._outbox.lose_disk(self._reason)


def _figures(store: Store) -> OnDisk:
    return OnDisk(store.count, store.bytes, store.last)
