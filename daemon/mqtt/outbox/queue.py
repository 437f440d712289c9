"""Messages between the worker and the broker, in memory: what is live, what is late, what is not written yet.

Two queues lead to the broker. Live messages were made during the present connection. Late ones were not: they wait on
disk, those not yet written in memory, and are replayed in order beside the live ones. When a connection ends, all that
was not answered is late. When the live queue grows too long, so are its messages.

Nothing here touches the disk, so whoever offers, sends or settles a message never waits for it. The keeper does.
"""

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from edgemeta.daemon.config.broker import OutboxConfig
from edgemeta.daemon.messages.records import OutboxStats
from edgemeta.daemon.mqtt.outbox.delivery import Delivery, OutgoingMessage
from edgemeta.daemon.mqtt.outbox.retention import MEGABYTE
from edgemeta.daemon.mqtt.outbox.spans import Spans
from edgemeta.daemon.mqtt.outbox.store import Row
from edgemeta.daemon.runtime.clock import NS

log = logging.getLogger(__name__)

PATIENCE_NS = NS // 4
"""How long a broker may take to answer before the message goes to disk, at the keeper's next look."""

DISK_ANSWERS_WITHIN = 10.0
"""Seconds after which a disk that was asked to read or write counts as hanging. Memory cards do take seconds."""

LIVE = 1000
"""Live messages that may wait; more, and they are late."""

FEW = 250
"""So few late messages read, and more are wanted."""


@dataclass(frozen=True)
class OnDisk:
    """Messages on disk, their bytes, and the greatest number ever given to one."""

    count: int = 0
    bytes: int = 0
    last: int = 0


class Outbox:
    """Keeps messages for one link. Any thread may offer; the link's thread sends and settles, the keeper's stores."""

    def __init__(self, config: OutboxConfig, tell_dropped: Callable[[str, int], None]) -> None:
        """Make an empty outbox. tell_dropped hears topic and number of own messages dropped, one call at a time."""
        self._memory = config.max_memory_mb * MEGABYTE
        self._age_ns = int(config.max_age * NS)
        self._tell_dropped = tell_dropped
        self._lock = threading.Lock()
        self._connected = False
        self._fresh: dict[Delivery, None] = {}
        self._fresh_bytes = 0
        self._live: deque[Delivery] = deque()
        self._late: deque[Delivery] = deque()
        self._loaded: deque[Delivery] = deque()
        self._in_flight: dict[Delivery, None] = {}
        self._done = Spans()
        self._cursor = self._until = 0
        self._disk = OnDisk()
        self._no_disk: str | None = "it is not open yet"
        self._disk_busy_since: float | None = None
        self._readable = False
        self._replayed = self._dropped = self._expired = 0
        self.changed = threading.Event()
        """Set when a connection begins or ends."""
        self.ready: Callable[[], None] = lambda: None
        """Called when late messages are ready to be sent; the link sets it."""

    # -- for the worker and the link

    def offer(self, message: OutgoingMessage) -> None:
        """Take a message. Where memory is full because the disk does not take any, the oldest in memory is dropped."""
        delivery = Delivery(message)
        with self._lock:
            self._fresh[delivery] = None
            self._fresh_bytes += message.size
            if self._connected:
                self._live.append(delivery)
                if len(self._live) > LIVE:
                    self._begin_replay()
            if self._fresh_bytes > self._memory:
                self._drop_fresh()

    def begin(self) -> None:
        """A connection is there: what waits is late, what comes from now on is live."""
        with self._lock:
            self._connected = True
            self._begin_replay()
        self.changed.set()

    def end(self) -> None:
        """The connection is gone: what was not answered waits again."""
        with self._lock:
            self._connected = False
            self._in_flight.clear()
            self._begin_replay()
        self.changed.set()

    def next_live(self) -> Delivery | None:
        """Give the oldest live message, in flight from now on; None where none waits."""
        with self._lock:
            return self._next(self._live)

    def next_late(self) -> Delivery | None:
        """Give the oldest late message, in flight from now on; None where none waits or none is read yet."""
        with self._lock:
            delivery = self._next(self._loaded)
            if delivery is None and self._cursor >= self._until:
                delivery = self._next(self._late)
            if delivery is not None:
                delivery.late = True
            return delivery

    def settle(self, delivery: Delivery) -> None:
        """Forget a message in flight: the broker has taken or refused it."""
        with self._lock:
            if delivery not in self._in_flight:
                return
            del self._in_flight[delivery]
            delivery.settled = True
            self._replayed += delivery.late
            if delivery.row is not None:
                self._done.add(delivery.row)
            else:
                self._forget_fresh(delivery)

    @property
    def live(self) -> int:
        """Number of messages that a link could still send and settle at once: live or in flight."""
        with self._lock:
            return len(self._live) + len(self._in_flight)

    @property
    def has_live(self) -> bool:
        """Whether there may be a live message to send. Asked for every message, so without the lock."""
        return bool(self._live)

    @property
    def has_late_read(self) -> bool:
        """Whether there may be a late message in memory to send. Asked for every message, so without the lock."""
        return bool(self._loaded or self._late)

    @property
    def stats(self) -> OutboxStats:
        """Tell how it stands."""
        with self._lock:
            reason = self._no_disk or self._hanging
            return OutboxStats(
                place="disk" if reason is None else "memory",
                reason=reason,
                waiting=len(self._fresh) + max(0, self._disk.count - len(self._done)),  # a ledger may be wrong
                bytes=self._fresh_bytes + self._disk.bytes,
                replayed=self._replayed,
                dropped=self._dropped,
                expired=self._expired,
            )

    # -- for the keeper

    @property
    def good_day(self) -> bool:
        """Whether there is a connection, and nothing that waits for it or on disk."""
        with self._lock:
            return self._connected and self._disk.count <= len(self._done) and not self._late

    @property
    def in_memory_only(self) -> int:
        """Number of messages that are not on disk."""
        with self._lock:
            return len(self._fresh)

    def due(self, everything: bool) -> list[Delivery]:
        """Return the messages that must be written now, oldest first."""
        now = time.monotonic_ns()
        with self._lock:
            made_before = now - PATIENCE_NS if self._connected and not everything else now
            return [delivery for delivery in self._fresh if delivery.message.made_ns <= made_before]

    def removable(self, width: int) -> tuple[int, int] | None:
        """Return first and last of some numbers, `width` at most, whose messages were answered or dropped.

        None where no such message is on disk. Until `removed` is told they are on disk and not sent again.
        """
        with self._lock:
            return self._done.first_piece(width)

    def removed(self, first: int, last: int, disk: OnDisk) -> None:
        """Note that the messages with the numbers that `removable` returned are on disk no more."""
        with self._lock:
            self._done.remove(first, last)
            self._disk = disk

    def written(self, added: Sequence[Delivery], numbers: Sequence[int], disk: OnDisk) -> None:
        """Note that messages are on disk now."""
        with self._lock:
            for delivery, number in zip(added, numbers, strict=True):
                delivery.row = number
                self._forget_fresh(delivery)
                if delivery.settled:
                    self._done.add(number)
            self._disk = disk

    def wanted(self) -> tuple[int, int] | None:
        """Tell after and until which number late messages should be read; None where enough are."""
        with self._lock:
            if not self._connected or len(self._loaded) >= FEW or self._cursor >= self._until:
                return None
            self._cursor = min(self._done.end_of_run(self._cursor), self._until)
            return self._cursor, self._until

    def load(self, span: tuple[int, int], deliveries: Sequence[Delivery], reached: int, disk: OnDisk) -> None:
        """Take messages read from disk for `span`, unless another replay began meanwhile."""
        with self._lock:
            self._disk = disk
            if span != (self._cursor, self._until):
                return
            busy = self._busy()
            self._loaded.extend(
                delivery for delivery in deliveries if delivery.row not in busy and delivery.row not in self._done
            )
            self._cursor = reached
        self.ready()

    def withdraw(self, choose: Callable[[Callable[[int], bool]], tuple[list[Row], list[Row]]]) -> bool:
        """Let `choose` pick messages on disk that must go: too many, and too old. It hears which are not to be chosen.

        Those chosen are counted as dropped, not sent any more, and removable. Returns whether there are any.
        """
        with self._lock:
            busy = self._busy()
            full, old = choose(lambda number: number in busy or number in self._done)
            gone = {row.number for row in (*full, *old)}
            for number in gone:
                self._done.add(number)
            for delivery in (*self._loaded, *self._live, *self._late):
                delivery.settled = delivery.settled or delivery.row in gone
            for rows, expired in ((full, False), (old, True)):
                own = Counter(row.topic for row in rows if row.own)
                self._count_dropped(own, len(rows) - own.total(), expired)
            return bool(gone)

    def expire(self) -> None:
        """Drop what is in memory only and too old."""
        with self._lock:
            self._drop_fresh(time.monotonic_ns() - self._age_ns)

    def use_disk(self, disk: OnDisk) -> None:
        """A file is open: what it holds is late. Whether it takes more messages, `report_disk` says."""
        with self._lock:
            self._disk, self._readable = disk, True
            self._begin_replay()

    def lose_disk(self) -> None:
        """There is no file now: what is on disk comes when it is back."""
        with self._lock:
            self._readable = False
            self._loaded.clear()
            self._cursor = self._until

    def report_disk(self, reason: str | None) -> None:
        """Keep why messages wait in memory only; None while they wait on disk."""
        with self._lock:
            self._no_disk = reason

    @contextmanager
    def disk_busy(self) -> Iterator[None]:
        """While this lasts, the disk is read or written; where it lasts too long, the disk hangs."""
        self._disk_busy_since = time.monotonic()
        try:
            yield
        finally:
            self._disk_busy_since = None

    # -- with the lock held

    @property
    def _hanging(self) -> str | None:
        since = self._disk_busy_since
        hangs = since is not None and time.monotonic() - since > DISK_ANSWERS_WITHIN
        return "the disk does not answer" if hangs else None

    def _next(self, queue: deque[Delivery]) -> Delivery | None:
        while queue:
            delivery = queue.popleft()
            if not delivery.settled:
                self._in_flight[delivery] = None
                return delivery
        return None

    def _busy(self) -> set[int | None]:
        """Rows whose messages are in flight."""
        return {delivery.row for delivery in self._in_flight}

    def _begin_replay(self) -> None:
        """Make all that waits late: the written is read again from the oldest on, then comes what is in memory."""
        self._live.clear()
        self._loaded.clear()
        self._late = deque(delivery for delivery in self._fresh if delivery not in self._in_flight)
        self._cursor, self._until = 0, self._disk.last if self._readable else 0

    def _forget_fresh(self, delivery: Delivery) -> None:
        if delivery in self._fresh:
            del self._fresh[delivery]
            self._fresh_bytes -= delivery.message.size

    def _drop_fresh(self, before_ns: int | None = None) -> None:
        """Drop the oldest of what is in memory only: until it is within its bound, or all made before a moment."""
        excess = self._fresh_bytes - self._memory
        doomed = []
        for delivery in self._fresh:
            if delivery in self._in_flight:
                continue
            if excess <= 0 if before_ns is None else delivery.message.made_ns >= before_ns:
                break
            doomed.append(delivery)
            excess -= delivery.message.size
        for delivery in doomed:
            delivery.settled = True
            self._forget_fresh(delivery)
            self._count_dropped(Counter({delivery.message.topic: 1}), expired=before_ns is not None)

    def _count_dropped(self, own: Counter[str], others: int = 0, expired: bool = False) -> None:
        count = own.total() + others
        if expired:
            self._expired += count
        elif count:
            if not self._dropped:
                log.warning("outbox: full, the oldest messages are dropped; further drops are only counted")
            self._dropped += count
        for topic, number in own.items():
            self._tell_dropped(topic, number)
