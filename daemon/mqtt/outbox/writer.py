"""The thread that writes an outbox to disk, reads it for the replay and applies its limits.

While the broker acknowledges quickly there is nothing to write. If the disk accepts no more messages, new ones stay in
memory and the outbox reports the reason; messages in the file are still sent and removed. The disk counts as usable
again when all messages in memory are written and there is room for more; it is tried about every minute, without logs.
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
from edgemeta.daemon.mqtt.outbox.disk_state import OnDisk
from edgemeta.daemon.mqtt.outbox.errors import DamagedError, FullError, StoreError
from edgemeta.daemon.mqtt.outbox.patience import BATCH_NS
from edgemeta.daemon.mqtt.outbox.queue import Outbox
from edgemeta.daemon.mqtt.outbox.recovery import open_store, replaced, rescued
from edgemeta.daemon.mqtt.outbox.retention import Retention
from edgemeta.daemon.mqtt.outbox.store import BATCH_BYTES, BATCH_ROWS, Store
from edgemeta.daemon.runtime.backoff import Backoff
from edgemeta.daemon.runtime.clock import NS, Clock
from edgemeta.daemon.runtime.threads import guarded_thread
from edgemeta.daemon.runtime.written import written_bytes

log = logging.getLogger(__name__)

POLL_EVERY = 0.05
"""Seconds between two polls while messages wait: without a broker, a message is then on disk."""

IDLE_POLL_EVERY = 0.2
"""The same while nothing waits: to notice a broker that acknowledges slowly."""

EMPTY_POLL_EVERY = 1.0
"""The same while there is no message at all, in memory or on disk: to notice a file that was removed."""

SYNC_AFTER_NS = NS
"""How long a written message may stay unflushed, where a power cut would lose it."""

READ_AT_ONCE = 500
"""Messages read from disk at once."""

ROOM = 100_000
"""Bytes of messages for which a file needs room before a disk that was full counts as usable again."""

SMALL_BATCH = 20_000
"""Bytes of messages that one commit adds to a disk that was full, so that the free pages of the file are used."""

RETRY_FIRST, RETRY_CAP = 1.0, 60.0
"""Seconds until a disk that failed is tried again: the first time, and at most. The waits start again only after the
disk was usable for the longer time, so that the state of an unstable disk changes at most twice a minute."""

ADD_NS = NS
"""Time that one poll may spend on adding, on a slow disk: then it looks what else is due."""

REMOVE_NS = NS // 5
"""Time that one poll may spend on removing: there may be hundreds of thousands of messages to remove."""


class OutboxWriter:
    """Keeps the messages of one outbox in one file; path None is memory only. on_fatal: called with a fatal error."""

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
        self._reason: str | None = "configured to be in memory only" if path is None else "not open yet"
        self._reported: set[str] = set()
        self._removes = True
        self._reopen = False
        self._last = 0
        self._retry = Backoff(RETRY_FIRST, RETRY_CAP)
        self._retry_at = self._usable_since = time.monotonic()
        self._synced_ns = time.monotonic_ns()
        self._unsynced = False
        self._removed_ns = 0
        self._aged_ns = 0
        self._gone_checked_ns = 0
        self._gone = False
        self._hurries = self._says_slow = False
        self._closing = threading.Event()
        self._thread = guarded_thread("outbox", self._run, on_fatal)

    def start(self) -> None:
        """Open the file and start the thread."""
        self.open()
        self._thread.start()

    def hurry(self) -> None:
        """Write everything from now on, while the link sends what it still can."""
        self._hurries = True
        self._outbox.changed.set()

    def close(self, timeout: float) -> None:
        """Write all messages that were not answered, flush and close the file; give up after `timeout` seconds."""
        self._closing.set()
        self._outbox.changed.set()
        self._thread.join(timeout)
        if self._thread.is_alive() and (lost := self._outbox.in_memory_only):
            log.error("outbox: the disk does not respond, %d messages may be lost", lost)

    def open(self) -> None:
        """Open the file, if there should be one; after a failure, set the reason and the time of the next attempt."""
        if self._path is None:
            self._outbox.disk.problem = self._reason
            return
        try:
            store = self._store = open_store(self._path, self._boot, self._last + 1)
            self._outbox.use_disk(_figures(store))
            self._update(store, due=True)
        except DamagedError as error:
            self._replace(error)
        except StoreError as error:
            self._lose(error)

    def poll(self) -> None:
        """Write, remove, read and expire messages, whatever is due."""
        due = self._path is not None and self._reason is not None and time.monotonic() >= self._retry_at
        if self._store is None and due:
            self.open()
        elif self._store is not None:
            try:
                self._read(self._store)
                self._update(self._store, due)
                if self._store is not None:
                    self._read(self._store)
            except DamagedError as error:
                self._replace(error)
            except StoreError as error:
                self._lose(error)
        self._outbox.expire()

    def flush(self) -> None:
        """Write all messages, and close the file."""
        if self._store is not None:
            everything = partial(self._add, everything=True)
            for write in (everything, self._remove, everything):  # a full disk has room after removing
                try:
                    if not (self._store.read_only or self._gone):
                        write(self._store)
                except StoreError as error:
                    self._keep_in_memory(error)
            self._close_store()
        if lost := self._outbox.in_memory_only:
            log.error("outbox: %d messages in memory are lost: %s", lost, self._reason)

    def _run(self) -> None:
        polled = 0.0
        while not self._closing.is_set():
            changed = self._outbox.changed.wait(IDLE_POLL_EVERY if self._outbox.is_idle else POLL_EVERY)
            if not changed and self._outbox.is_empty and time.monotonic() - polled < EMPTY_POLL_EVERY:
                continue  # nothing is to be written, removed or read
            polled = time.monotonic()
            self._outbox.changed.clear()
            with self._outbox.disk.busy():
                self.poll()
            self._outbox.disk.written_bytes = written_bytes()
            self._log_slowness()
        self.flush()

    def _log_slowness(self) -> None:
        """Say once when the disk becomes slow, and when it no longer is."""
        slow = self._outbox.disk.is_slow
        if slow and not self._says_slow:
            log.warning("outbox: the disk is slow; messages are sent from memory, the newest %d MB", self._memory)
        elif self._says_slow and not slow:
            log.info("outbox: the disk is no longer slow")
        self._says_slow = slow

    def _update(self, store: Store, due: bool) -> None:
        """Remove and add messages. On a disk that failed before, messages are added only when the next attempt is due.

        Raises DamagedError. Any other failure leaves the file open for reading; unless the disk is full, the next
        attempt opens the file again.
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
            if not (self._gone or store.read_only) and self._is_gone(store, due=True):
                return  # for that reason; the next poll replaces it
            self._reopen = not isinstance(error, FullError)
            self._keep_in_memory(error)

    def _open_again(self, store: Store) -> None:
        if store.read_only and not os.access(store.path, os.W_OK):
            store.expect_writable()
        self._reopen = False
        self._close_store()
        self.open()

    def _remove_and_add(self, store: Store, due: bool) -> None:
        now = time.monotonic_ns()
        if due or (self._removes and (now - self._removed_ns >= BATCH_NS or self._outbox.answered >= BATCH_ROWS)):
            self._removed_ns = now
            self._removes = False  # until it has succeeded
            self._remove(store)
            self._removes = True
        if due or self._reason is None:
            self._add(store, everything=self._hurries, sync=bool(due and self._reported))
        if due:
            store.reserve(ROOM)
            self._report_usable(store)
        if self._removes:
            self._keep_bounds(store)

    def _is_gone(self, store: Store, due: bool) -> bool:
        """Whether the file was removed while it is open; checked every second."""
        now = time.monotonic_ns()
        if due or now - self._gone_checked_ns >= NS:
            self._gone_checked_ns = now
            self._gone = store.gone
        return self._gone

    def _rescue(self, store: Store, due: bool) -> None:
        """Replace a file that was removed. Until there is a new one, messages are sent from the open one."""
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
        """Remove messages that were answered or dropped."""
        removed = False
        until = time.monotonic_ns() + REMOVE_NS
        while time.monotonic_ns() < until and (piece := self._outbox.removable(BATCH_ROWS)):
            store.remove(*piece)
            self._outbox.removed(*piece, _figures(store))
            removed = True
        if removed and self._reason is None:
            store.give_space_back()

    def _add(self, store: Store, everything: bool, sync: bool = False) -> None:
        """Commit the messages that have waited long enough."""
        messages = self._outbox.due(everything)
        if everything and not messages and not self._unsynced:
            return
        batches = list(_batches(messages, BATCH_BYTES if self._reason is None else SMALL_BATCH))
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
            self._read(store)
            if not everything and time.monotonic_ns() - now > ADD_NS:
                return
        if sync:
            self._synced_ns, self._unsynced = now, False

    def _stamps(self, deliveries: list[Delivery]) -> list[int | None]:
        """UTC in ns when each was made; None while the clock is not synchronized."""
        if not self._clock.synchronized:
            return [None] * len(deliveries)
        monotonic_to_utc = time.time_ns() - time.monotonic_ns()
        return [delivery.message.made_ns + monotonic_to_utc for delivery in deliveries]

    def _read(self, store: Store) -> None:
        """Read more messages to be replayed when the link has few left."""
        span = self._outbox.wanted()
        if span is not None:
            deliveries, reached = store.load(*span, READ_AT_ONCE)
            self._outbox.load(span, deliveries, reached, _figures(store))
            self._outbox.report_damaged(store.take_damaged())

    def _keep_bounds(self, store: Store) -> None:
        """Drop the oldest messages on disk while they are too many bytes, or too old (checked every second)."""
        now = time.monotonic_ns()
        if self._outbox.removable(1):
            return  # they still count
        too_old = False
        if now - self._aged_ns >= NS:
            self._aged_ns = now
            too_old = any(self._bounds.too_old(row, now) for row in store.oldest(1))
        while too_old or self._bounds.excess(store.bytes) > 0:
            rows = store.oldest(READ_AT_ONCE)
            if not self._outbox.withdraw(partial(self._bounds.doomed, rows, store.bytes, now)):
                return
            self._remove(store)
            if self._outbox.removable(1):
                return  # at the next poll

    def _replace(self, error: DamagedError) -> None:
        """The file is damaged: continue with a new one."""
        assert self._path is not None
        self._close_store()
        try:
            self._store = replaced(error, self._path, self._boot, self._last + 1)
        except StoreError as failure:
            self._lose(failure)
        else:
            self._outbox.use_disk(_figures(self._store))

    def _lose(self, error: StoreError) -> None:
        """Continue without a file, and open it again later."""
        self._close_store()
        self._outbox.lose_disk()
        self._keep_in_memory(error)

    def _close_store(self) -> None:
        """Let go of the file before it is closed, so that nobody uses it afterwards."""
        store, self._store = self._store, None
        if store is not None:
            self._last = store.last
            store.close()

    def _keep_in_memory(self, error: StoreError) -> None:
        """Continue in memory, and try the disk again later. A reason is logged once until the disk is usable again."""
        now = time.monotonic()
        if self._reason is None and now - self._usable_since > RETRY_CAP:
            self._retry.reset()
        self._retry_at = now + self._retry.next()
        self._reason = str(error)
        if self._reason not in self._reported:
            self._reported.add(self._reason)
            log.warning("%s; messages are kept in memory, the newest %d MB", error, self._memory)
        self._outbox.disk.problem = self._reason

    def _report_usable(self, store: Store) -> None:
        if self._reported:
            log.info("outbox: on disk again: %s", store.path)
            self._reported.clear()
        self._reason, self._usable_since = None, time.monotonic()
        self._outbox.disk.problem = None


def _batches(deliveries: Sequence[Delivery], limit: int) -> Iterator[list[Delivery]]:
    """Divide messages, in order, into commits of up to `limit` bytes, or of one message."""
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
