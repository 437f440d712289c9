"""Messages between the worker and the broker: in memory while the broker answers quickly, on disk when it does not.

Two queues lead to the broker. Live messages were made during the present connection. Late ones were not: they wait on
disk, those not yet written in memory, and are replayed in order beside the live ones. When a connection ends, all that
was not answered is late. When the live queue grows too long, so are its messages.

A thread of its own does all that touches the disk, tick by tick: whoever offers, sends or settles messages never waits.
"""

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from pathlib import Path

from edgemeta.daemon.backoff import Backoff
from edgemeta.daemon.clock import NS, Clock
from edgemeta.daemon.config import OutboxConfig
from edgemeta.daemon.messages import OutboxStats
from edgemeta.daemon.outbox.bounds import MEGABYTE, Bounds
from edgemeta.daemon.outbox.parcel import Outgoing, Parcel
from edgemeta.daemon.outbox.salvage import open_store, replaced
from edgemeta.daemon.outbox.store import DamagedError, Store, StoreError
from edgemeta.daemon.threads import guarded_thread

log = logging.getLogger(__name__)

TICK = 0.05
"""Seconds between two looks of the disk thread while something waits: without a broker, a message is then on disk."""

SLOW_TICK = 0.2
"""The same on a good day, when there is nothing to do but to see that the broker still answers."""

PATIENCE_NS = NS // 4
"""How long a broker may take to answer before the message goes to disk, at the next look."""

SYNC_AFTER_NS = NS
"""How long a written message may wait to be on the medium, safe from a power cut."""

LIVE = 1000
"""Live messages that may wait; more, and they are late."""

LOAD = 500
"""Late messages read at once."""


class Outbox:
    """Keeps messages for one link. Any thread may offer; the link's thread sends and settles."""

    def __init__(
        self,
        config: OutboxConfig,
        path: Path | None,
        boot: str,
        clock: Clock,
        dropped: Callable[[str, int], None],
        crashed: Callable[[BaseException], None],
    ) -> None:
        """Prepare an outbox in the file `path`, None for memory only.

        dropped: hears topic and number of own messages that were dropped, one call at a time. The attribute `rouse` is
        called when late messages are ready to be sent; the link sets it.
        """
        self._config = config
        self._path = path
        self._boot = boot
        self._clock = clock
        self._bounds = Bounds(config, clock)
        self._tell_dropped = dropped
        self._store: Store | None = None
        self._retry = Backoff(1.0, 60.0)
        self._retry_at = 0.0
        self._synced_ns = time.monotonic_ns()
        self._unsynced = False
        self._aged_ns = 0

        self._lock = threading.Lock()
        self._connected = False
        self._fresh: dict[Parcel, None] = {}
        self._fresh_bytes = 0
        self._live: deque[Parcel] = deque()
        self._late: deque[Parcel] = deque()
        self._loaded: deque[Parcel] = deque()
        self._in_flight: dict[Parcel, None] = {}
        self._settled: list[Parcel] = []
        self._cursor = self._until = self._last = 0
        self._disk_count = self._disk_bytes = 0
        self._reason: str | None = None if path else "it is kept in memory only, as the config says"
        self._replayed = self._dropped = self._expired = 0

        self.rouse: Callable[[], None] = lambda: None
        self._closing = False
        self._look_now = threading.Event()
        self._thread = guarded_thread("outbox", self._run, crashed)

    def start(self) -> None:
        """Open the file and begin."""
        self._try_disk()
        self._thread.start()

    def offer(self, message: Outgoing) -> None:
        """Take a message. Where memory is full because the disk does not take any, the oldest in memory is dropped."""
        parcel = Parcel(message)
        with self._lock:
            self._fresh[parcel] = None
            self._fresh_bytes += message.size
            if self._connected:
                self._live.append(parcel)
                if len(self._live) > LIVE:
                    self._begin_replay()
            if self._fresh_bytes > self._config.memory * MEGABYTE:
                self._drop_fresh()

    def begin(self) -> None:
        """A connection is there: what waits is late, what comes from now on is live."""
        with self._lock:
            self._connected = True
            self._begin_replay()
        self._look_now.set()

    def end(self) -> None:
        """The connection is gone: what was not answered waits again."""
        with self._lock:
            self._connected = False
            self._in_flight.clear()
            self._begin_replay()
        self._look_now.set()

    def next_live(self) -> Parcel | None:
        """Give the oldest live message, in flight from now on; None where none waits."""
        with self._lock:
            return self._next(self._live)

    def next_late(self) -> Parcel | None:
        """Give the oldest late message, in flight from now on; None where none waits or none is read yet."""
        with self._lock:
            parcel = self._next(self._loaded)
            if parcel is None and self._cursor >= self._until:
                parcel = self._next(self._late)
            if parcel is not None:
                parcel.late = True
            return parcel

    def settle(self, parcel: Parcel) -> None:
        """Forget a message in flight: the broker has taken or refused it."""
        with self._lock:
            if parcel not in self._in_flight:
                return
            del self._in_flight[parcel]
            parcel.settled = True
            self._replayed += parcel.late
            if parcel.row is not None:
                self._settled.append(parcel)
            else:
                self._forget_fresh(parcel)

    @property
    def live(self) -> int:
        """Number of messages that a link could still send and settle at once: live or in flight."""
        with self._lock:
            return len(self._live) + len(self._in_flight)

    @property
    def has_late(self) -> bool:
        """Whether late messages wait for the present connection."""
        with self._lock:
            return bool(self._loaded or self._late or self._cursor < self._until)

    @property
    def stats(self) -> OutboxStats:
        """Tell how it stands."""
        with self._lock:
            return OutboxStats(
                place="memory" if self._reason else "disk",
                reason=self._reason,
                waiting=len(self._fresh) + self._disk_count - len(self._settled),
                bytes=self._fresh_bytes + self._disk_bytes,
                replayed=self._replayed,
                dropped=self._dropped,
                expired=self._expired,
            )

    def close(self, timeout: float) -> None:
        """Write everything that was not answered to the medium and close the file; give up after `timeout` seconds."""
        self._closing = True
        self._look_now.set()
        self._thread.join(timeout)
        if self._thread.is_alive():
            log.error("outbox: the disk does not answer, %d messages may be lost", len(self._fresh))

    # -- with the lock held

    def _next(self, queue: deque[Parcel]) -> Parcel | None:
        while queue:
            parcel = queue.popleft()
            if not parcel.settled:
                self._in_flight[parcel] = None
                return parcel
        return None

    def _begin_replay(self) -> None:
        """Make all that waits late: the written is read again from the oldest on, then comes what is in memory."""
        self._live.clear()
        self._loaded.clear()
        self._late = deque(parcel for parcel in self._fresh if parcel not in self._in_flight)
        self._cursor, self._until = 0, self._last if self._store is not None else 0

    def _forget_fresh(self, parcel: Parcel) -> None:
        if parcel in self._fresh:
            del self._fresh[parcel]
            self._fresh_bytes -= parcel.message.size

    def _drop_fresh(self, before_ns: int | None = None) -> None:
        """Drop the oldest of what is in memory only: until it is within its bound, or all made before a moment."""
        excess = self._fresh_bytes - self._config.memory * MEGABYTE
        doomed = []
        for parcel in self._fresh:
            if parcel in self._in_flight:
                continue
            if excess <= 0 if before_ns is None else parcel.message.made_ns >= before_ns:
                break
            doomed.append(parcel)
            excess -= parcel.message.size
        for parcel in doomed:
            parcel.settled = True
            self._forget_fresh(parcel)
            self._count_dropped(Counter({parcel.message.topic: 1}), expired=before_ns is not None)

    def _count_dropped(self, own: Counter[str], others: int = 0, expired: bool = False) -> None:
        count = own.total() + others
        if expired:
            self._expired += count
        else:
            if not self._dropped:
                log.warning("outbox: full, the oldest messages are dropped; further drops are only counted")
            self._dropped += count
        for topic, number in own.items():
            self._tell_dropped(topic, number)

    # -- the disk thread

    def _run(self) -> None:
        while not self._closing:
            self._look_now.wait(SLOW_TICK if self._good_day else TICK)
            self._look_now.clear()
            self._tick()
        self._finish()

    @property
    def _good_day(self) -> bool:
        with self._lock:
            return self._connected and not (self._disk_count or self._late)

    def _tick(self) -> None:
        if self._store is None and self._path is not None and time.monotonic() >= self._retry_at:
            self._try_disk()
        try:
            if self._store is not None:
                self._write(self._store, everything=False)
                self._keep_bounds(self._store)
                self._load(self._store)
        except DamagedError as error:
            self._replace(error)
        except StoreError as error:
            self._fail(error)
        with self._lock:
            self._drop_fresh(time.monotonic_ns() - int(self._config.age * NS))

    def _finish(self) -> None:
        try:
            if self._store is not None:
                self._write(self._store, everything=True)
                self._store.close()
        except StoreError as error:
            self._fail(error)
        with self._lock:
            if self._fresh:
                log.error("outbox: %d messages are lost with this process: %s", len(self._fresh), self._reason)

    def _write(self, store: Store, everything: bool) -> None:
        """Commit what has waited long enough, and the removal of what the broker has answered."""
        now = time.monotonic_ns()
        with self._lock:
            made_before = now if everything or not self._connected else now - PATIENCE_NS
            added = [parcel for parcel in self._fresh if parcel.message.made_ns <= made_before]
            removed, self._settled = self._settled, []
        sync = everything or (self._unsynced and now - self._synced_ns >= SYNC_AFTER_NS)
        if not (added or removed or sync):
            return
        utc_ns = time.time_ns() if self._clock.synchronized else None
        stamps = [None if utc_ns is None else utc_ns - (now - parcel.message.made_ns) for parcel in added]
        try:
            numbers = store.apply(list(zip(added, stamps, strict=True)), removed, sync)
        except StoreError:
            with self._lock:
                self._settled = removed + self._settled
            raise
        if sync:
            self._synced_ns = now
        self._unsynced = not sync and (self._unsynced or bool(added))
        with self._lock:
            for parcel, number in zip(added, numbers, strict=True):
                parcel.row = number
                self._forget_fresh(parcel)
                if parcel.settled:
                    self._settled.append(parcel)
            self._note_disk(store)
        if removed:
            store.give_space_back()

    def _load(self, store: Store) -> None:
        """Read more late messages where the link has few left."""
        with self._lock:
            if not self._connected or len(self._loaded) >= LOAD // 2 or self._cursor >= self._until:
                return
            cursor, until = self._cursor, self._until
        parcels, reached = store.load(cursor, until, LOAD)
        with self._lock:
            if (cursor, until) != (self._cursor, self._until):
                return  # another replay began meanwhile
            known = {parcel.row for parcel in (*self._in_flight, *self._settled)}
            self._loaded.extend(parcel for parcel in parcels if parcel.row not in known)
            self._cursor = reached
            self._note_disk(store)
        self.rouse()

    def _keep_bounds(self, store: Store) -> None:
        """Drop the oldest messages on disk while they are too many bytes, or too old (looked at every second)."""
        now = time.monotonic_ns()
        too_old = False
        if now - self._aged_ns >= NS:
            self._aged_ns = now
            too_old = any(self._bounds.too_old(row, now) for row in store.oldest(1))
        while too_old or self._bounds.excess(store.bytes) > 0:
            if not self._drop_oldest(store, now):
                return

    def _drop_oldest(self, store: Store, now: int) -> bool:
        """Drop some of the oldest messages on disk that must go; return whether there may be more."""
        rows = store.oldest(LOAD)
        with self._lock:
            busy = {parcel.row for parcel in (*self._in_flight, *self._settled)}
            full, old = self._bounds.doomed(rows, store.bytes, busy, now)
            gone = {row.number for row in (*full, *old)}
            if not gone:
                return False
            for parcel in (*self._loaded, *self._live, *self._late):
                parcel.settled = parcel.settled or parcel.row in gone
        store.apply([], [*full, *old])
        with self._lock:
            for rows, expired in ((full, False), (old, True)):
                own = Counter(row.topic for row in rows if row.own)
                self._count_dropped(own, len(rows) - own.total(), expired)
            self._note_disk(store)
        return True

    def _note_disk(self, store: Store) -> None:
        self._disk_count, self._disk_bytes, self._last = store.count, store.bytes, store.last

    def _try_disk(self) -> None:
        if self._path is None:
            return
        try:
            self._use(open_store(self._path, self._boot, self._last + 1))
        except StoreError as error:
            self._fail(error)

    def _replace(self, error: DamagedError) -> None:
        """The file turned out to be damaged: go on with a new one."""
        assert self._store is not None
        assert self._path is not None
        try:
            self._store.close()
            self._use(replaced(error, self._path, self._boot, self._last + 1))
        except StoreError as failure:
            self._fail(failure)

    def _use(self, store: Store) -> None:
        with self._lock:
            if self._reason is not None:
                log.info("outbox: on disk again, %s", store.path)
            self._store, self._reason = store, None
            self._note_disk(store)
            self._begin_replay()
        self._retry.reset()

    def _fail(self, error: StoreError) -> None:
        """Go on in memory, and try the disk again later."""
        if self._store is not None:
            self._store.close()
        self._retry_at = time.monotonic() + self._retry.next()
        with self._lock:
            self._store = None
            if self._reason != str(error):
                log.warning("%s; messages are kept in memory, the newest %d MB", error, self._config.memory)
            self._reason = str(error)
            self._loaded.clear()
            self._cursor = self._until  # what is on disk comes when the disk is back
