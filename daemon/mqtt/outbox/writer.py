"""The keeper: a thread that writes to disk what waits in an outbox, reads it for the replay, keeps it within bounds.

While the broker answers quickly there is nothing to write. Where the disk takes no more messages, new ones stay in
memory and the outbox says why; what is in the file is sent and removed all the same. The disk counts as usable again
when everything that waited in memory is written and there is room for more: it is tried about every minute, quietly.
"""

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from edgemeta.daemon.config.broker import OutboxConfig
from edgemeta.daemon.mqtt.outbox.delivery import Delivery
from edgemeta.daemon.mqtt.outbox.queue import OnDisk, Outbox
from edgemeta.daemon.mqtt.outbox.recovery import open_store, replaced, rescued
from edgemeta.daemon.mqtt.outbox.retention import Retention
from edgemeta.daemon.mqtt.outbox.store import BATCH_BYTES, BATCH_ROWS, DamagedError, FullError, Store, StoreError
from edgemeta.daemon.runtime.backoff import Backoff
from edgemeta.daemon.runtime.clock import NS, Clock
from edgemeta.daemon.runtime.threads import guarded_thread

log = logging.getLogger(__name__)

TICK = 0.05
"""Seconds between two looks while something waits: without a broker, a message is then on disk."""

SLOW_TICK = 0.2
"""The same on a good day, when there is nothing to do but to see that the broker still answers."""

SYNC_AFTER_NS = NS
"""How long a written message may wait to be on the medium, safe from a power cut."""

LOAD = 500
"""Messages read at once."""

ROOM = 100_000
"""Bytes of messages that the file must have room for before a disk that was full counts as usable again."""

LITTLE = 20_000
"""Bytes of messages that one commit adds to a disk that was full, so that the room inside the file is used up."""

RETRY_FIRST, RETRY_CAP = 1.0, 60.0
"""Seconds until a disk that failed is tried again: the first time, and at most. A disk that was usable for less than
the second goes on where it was, so that one that comes and goes does so at most twice a minute."""

REMOVE_NS = NS // 5
"""How long one look may spend on removing: there may be hundreds of thousands of messages to remove."""


class OutboxWriter:
    """Keeps the messages of one outbox in one file; path None is memory only. `crashed` hears of unforeseen faults."""

    def __init__(
        self,
        outbox: Outbox,
        config: OutboxConfig,
        path: Path | None,
        boot: str,
        clock: Clock,
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        self._outbox = outbox
        self._path = path
        self._boot = boot
        self._clock = clock
        self._bounds = Retention(config, clock)
        self._memory = config.max_memory_mb
        self._store: Store | None = None
        self._reason: str | None = "it is kept in memory only, as the config says" if path is None else "not open yet"
        self._reported: set[str] = set()
        self._removes = True
        self._reopen = False
        self._last = 0
        self._retry = Backoff(RETRY_FIRST, RETRY_CAP)
        self._retry_at = self._usable_since = time.monotonic()
        self._synced_ns = time.monotonic_ns()
        self._unsynced = False
        self._aged_ns = 0
        self._looked_ns = 0
        self._gone = False
        self._closing = threading.Event()
        self._thread = guarded_thread("outbox", self._run, on_fatal)

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
            self._outbox.report_disk(self._reason)
            return
        try:
            store = self._store = open_store(self._path, self._boot, self._last + 1)
            self._outbox.use_disk(_figures(store))
            self._update(store, due=True)
        except DamagedError as error:
            self._replace(error)
        except StoreError as error:
            self._lose(error)

    def tick(self) -> None:
        """Do what is due."""
        due = self._path is not None and self._reason is not None and time.monotonic() >= self._retry_at
        if self._store is None and due:
            self.open()
        elif self._store is not None:
            try:
                self._update(self._store, due)
                if self._store is not None:
                    self._read(self._store)
            except DamagedError as error:
                self._replace(error)
            except StoreError as error:
                self._lose(error)
        self._outbox.expire()

    def finish(self) -> None:
        """Write everything, and close the file."""
        if self._store is not None:
            for write in (self._remove, partial(self._add, everything=True)):
                try:
                    if not self._store.read_only:
                        write(self._store)
                except StoreError as error:
                    self._keep_in_memory(error)
            self._store.close()
            self._store = None
        if lost := self._outbox.in_memory_only:
            log.error("outbox: %d messages are lost with this process: %s", lost, self._reason)

    def _run(self) -> None:
        while not self._closing.is_set():
            self._outbox.changed.wait(SLOW_TICK if self._outbox.good_day else TICK)
            self._outbox.changed.clear()
            with self._outbox.disk_busy():
                self.tick()
        self.finish()

    def _update(self, store: Store, due: bool) -> None:
        """Write what the disk takes; where it failed before, only when that is due again, but for what is removed.

        Raises DamagedError. Any other failure leaves the file open for reading; with room on the disk that is no cure,
        so it is then opened anew for the next try.
        """
        try:
            if not store.read_only and self._is_gone(store, due):
                self._rescue(store, due)
            elif due and self._reopen:
                self._open_again(store)
            elif due and store.read_only:
                store.expect_writable()
            elif not store.read_only:
                self._remove_and_add(store, due)
        except DamagedError:
            raise
        except StoreError as error:
            self._reopen = not isinstance(error, FullError)
            self._keep_in_memory(error)

    def _open_again(self, store: Store) -> None:
        if store.read_only and not os.access(store.path, os.W_OK):
            store.expect_writable()
        self._reopen = False
        store.close()
        self._store = None
        self.open()

    def _remove_and_add(self, store: Store, due: bool) -> None:
        if self._removes or due:
            self._removes = False  # until it has gone well
            self._remove(store)
            self._removes = True
        if due or self._reason is None:
            self._add(store, everything=False, sync=bool(due and self._reported))
        if due:
            store.reserve(ROOM)
            self._report_usable(store)
        if self._removes:
            self._keep_bounds(store)

    def _is_gone(self, store: Store, due: bool) -> bool:
        """Whether the file was removed while it is open; looked at every second."""
        now = time.monotonic_ns()
        if due or now - self._looked_ns >= NS:
            self._looked_ns = now
            self._gone = store.gone
        return self._gone

    def _rescue(self, store: Store, due: bool) -> None:
        """Make a new file in the place of one that was removed. As long as there is none the old one is sent."""
        assert self._path is not None
        self._remove(store)
        if self._reason is not None and not due:
            return
        try:
            self._store = rescued(store, self._path, self._boot)
        except StoreError as error:
            self._keep_in_memory(error)
        else:
            self._gone = False
            self._outbox.use_disk(_figures(self._store))

    def _remove(self, store: Store) -> None:
        """Remove what the broker has answered, and what was dropped."""
        removed = False
        until = time.monotonic_ns() + REMOVE_NS
        while time.monotonic_ns() < until and (piece := self._outbox.removable(BATCH_ROWS)):
            store.remove(*piece)
            self._outbox.removed(*piece, _figures(store))
            removed = True
        if removed and self._reason is None:
            store.give_space_back()

    def _add(self, store: Store, everything: bool, sync: bool = False) -> None:
        """Commit what has waited long enough."""
        batches = list(_batches(self._outbox.due(everything), BATCH_BYTES if self._reason is None else LITTLE))
        now = time.monotonic_ns()
        sync = sync or everything or (self._unsynced and now - self._synced_ns >= SYNC_AFTER_NS)
        if sync and not batches:
            batches = [[]]
        for number, batch in enumerate(batches, 1):
            numbers = store.add(
                list(zip(batch, self._stamps(batch), strict=True)), sync=sync and number == len(batches)
            )
            self._unsynced = True
            self._outbox.written(batch, numbers, _figures(store))
        if sync:
            self._synced_ns, self._unsynced = now, False

    def _stamps(self, deliveries: list[Delivery]) -> list[int | None]:
        """UTC in ns when each was made; None while the clock cannot be believed."""
        if not self._clock.synchronized:
            return [None] * len(deliveries)
        monotonic_to_utc = time.time_ns() - time.monotonic_ns()
        return [delivery.message.made_ns + monotonic_to_utc for delivery in deliveries]

    def _read(self, store: Store) -> None:
        """Read more late messages where the link has few left."""
        span = self._outbox.wanted()
        if span is not None:
            deliveries, reached = store.load(*span, LOAD)
            self._outbox.load(span, deliveries, reached, _figures(store))

    def _keep_bounds(self, store: Store) -> None:
        """Drop the oldest messages on disk while they are too many bytes, or too old (looked at every second)."""
        now = time.monotonic_ns()
        if self._outbox.removable(1):
            return  # their bytes still count
        too_old = False
        if now - self._aged_ns >= NS:
            self._aged_ns = now
            too_old = any(self._bounds.too_old(row, now) for row in store.oldest(1))
        while too_old or self._bounds.excess(store.bytes) > 0:
            rows = store.oldest(LOAD)
            if not self._outbox.withdraw(partial(self._bounds.doomed, rows, store.bytes, now)):
                return
            self._remove(store)
            if self._outbox.removable(1):
                return  # at the next look

    def _replace(self, error: DamagedError) -> None:
        """The file turned out to be damaged: go on with a new one."""
        assert self._store is not None
        assert self._path is not None
        self._last = self._store.last
        self._store.close()
        self._store = None
        try:
            self._store = replaced(error, self._path, self._boot, self._last + 1)
        except StoreError as failure:
            self._lose(failure)
        else:
            self._outbox.use_disk(_figures(self._store))

    def _lose(self, error: StoreError) -> None:
        """Go on without a file, and open it again later."""
        if self._store is not None:
            self._last = self._store.last
            self._store.close()
            self._store = None
        self._outbox.lose_disk()
        self._keep_in_memory(error)

    def _keep_in_memory(self, error: StoreError) -> None:
        """Go on in memory, and try the disk again later. Every reason is logged once until the disk is usable again."""
        now = time.monotonic()
        if self._reason is None and now - self._usable_since > RETRY_CAP:
            self._retry.reset()
        self._retry_at = now + self._retry.next()
        self._reason = str(error)
        if self._reason not in self._reported:
            self._reported.add(self._reason)
            log.warning("%s; messages are kept in memory, the newest %d MB", error, self._memory)
        self._outbox.report_disk(self._reason)

    def _report_usable(self, store: Store) -> None:
        if self._reported:
            log.info("outbox: on disk again, %s", store.path)
            self._reported.clear()
        self._reason, self._usable_since = None, time.monotonic()
        self._outbox.report_disk(None)


def _batches(deliveries: Sequence[Delivery], limit: int) -> Iterator[list[Delivery]]:
    """Divide messages, in order, into what one commit takes: so many bytes, or one message."""
    batch: list[Delivery] = []
    size = 0
    for delivery in deliveries:
        if batch and size + delivery.message.size > limit:
            yield batch
            batch, size = [], 0
        batch.append(delivery)
        size += delivery.message.size
    if batch:
        yield batch


def _figures(store: Store) -> OnDisk:
    return OnDisk(store.count, store.bytes, store.last)
