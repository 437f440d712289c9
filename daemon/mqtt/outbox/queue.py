"""The outbox in memory: messages that are live, messages to be replayed, and messages that are not written yet.

Two queues lead to the broker. Live messages were made during the present connection. All others wait, on disk or, not
yet written, in memory, and are replayed in order beside the live ones. When a connection ends, all messages that the
broker has not answered will be replayed. When the live queue grows too long, so will its messages.

Nothing here accesses the disk, so no thread that offers, sends or settles a message waits for it. The writer does.
"""

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from edgemeta.daemon.config.broker import OutboxConfig
from edgemeta.daemon.messages.stats import OutboxStats
from edgemeta.daemon.mqtt.outbox.delivery import Delivery, OutgoingMessage
from edgemeta.daemon.mqtt.outbox.retention import MEGABYTE
from edgemeta.daemon.mqtt.outbox.spans import Spans
from edgemeta.daemon.mqtt.outbox.store import Row
from edgemeta.daemon.runtime.clock import NS

log = logging.getLogger(__name__)

PATIENCE_NS = NS // 4
"""How long a broker may take to acknowledge a message; then the writer's next poll writes it to disk."""

DISK_ANSWERS_WITHIN = 10.0
"""Seconds after which a read or write counts as hanging. Memory cards do take seconds."""

LIVE = 1000
"""Greatest number of live messages; when there are more, they are replayed instead."""

READ_BELOW = 250
"""With fewer messages than this read from disk, more are read."""


@dataclass(frozen=True)
class OnDisk:
    """Messages on disk, their bytes, and the greatest number ever given to one."""

    count: int = 0
    bytes: int = 0
    last: int = 0


class Outbox:
    """Keeps messages for one link. Any thread may offer; the link's thread sends and settles, the writer's stores."""

    def __init__(self, config: OutboxConfig, on_dropped: Callable[[str, int], None]) -> None:
        """Make an empty outbox.

        on_dropped: called with topic and number of dropped messages of this boot, by one thread at a time.
        """
        self._memory = config.max_memory_mb * MEGABYTE
        self._age_ns = int(config.max_age * NS)
        self._on_dropped = on_dropped
        self._lock = threading.Lock()
        self._connected = False
        self._unwritten: dict[Delivery, None] = {}
        self._unwritten_bytes = 0
        self._live: deque[Delivery] = deque()
        self._waiting: deque[Delivery] = deque()
        self._loaded: deque[Delivery] = deque()
        self._in_flight: dict[Delivery, None] = {}
        self._held: dict[str, Delivery] = {}
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
        """Called when messages to be replayed were read; the link sets it."""

    # -- for the worker and the link

    def offer(self, message: OutgoingMessage) -> None:
        """Add a message. If memory is full because the disk accepts none, the oldest one in memory is dropped."""
        delivery = Delivery(message)
        with self._lock:
            self._unwritten[delivery] = None
            self._unwritten_bytes += message.size
            if self._connected:
                self._live.append(delivery)
                if len(self._live) > LIVE:
                    self._begin_replay()
            if self._unwritten_bytes > self._memory:
                self._drop_unwritten()

    def begin(self) -> None:
        """A connection begins: waiting messages will be replayed, new ones are live."""
        with self._lock:
            self._connected = True
            self._begin_replay()
        self.changed.set()

    def end(self) -> None:
        """The connection has ended: messages that were not answered wait again."""
        with self._lock:
            self._connected = False
            self._in_flight.clear()
            self._held.clear()
            self._begin_replay()
        self.changed.set()

    def next_live(self) -> Delivery | None:
        """Return the oldest live message, in flight from now on; None if there is none."""
        with self._lock:
            return self._next(self._live)

    def next_replayed(self) -> Delivery | None:
        """Return the oldest message to be replayed, in flight from now on; None if none waits or none is read yet."""
        with self._lock:
            delivery = self._next(self._loaded)
            if delivery is None and self._cursor >= self._until:
                delivery = self._next(self._waiting)
            if delivery is not None:
                delivery.replayed = True
            return delivery

    def settle(self, delivery: Delivery) -> None:
        """Forget a message in flight: the broker has accepted or refused it."""
        with self._lock:
            if delivery not in self._in_flight:
                return
            del self._in_flight[delivery]
            delivery.settled = True
            self._replayed += delivery.replayed
            if delivery.row is not None:
                self._done.add(delivery.row)
            else:
                self._forget_unwritten(delivery)

    def hold(self, delivery: Delivery) -> None:
        """The broker has refused a message in flight for now: it waits, and with it all others on its topic."""
        with self._lock:
            if delivery in self._in_flight:
                del self._in_flight[delivery]
                self._held.setdefault(delivery.message.topic, delivery)

    def retry(self, topic: str) -> Delivery | None:
        """Return the message that was refused for now, in flight again; the others on its topic go on waiting."""
        with self._lock:
            delivery = self._held.get(topic)
            if delivery is not None:
                delivery.replayed = True
                self._in_flight[delivery] = None
            return delivery

    def release(self, delivery: Delivery) -> bool:
        """The broker has answered a message on a topic that may be held, other than with `refused for now`.

        Where it was the one that held the topic, the others are replayed. Returns whether the topic is free now.
        """
        topic = delivery.message.topic
        with self._lock:
            if self._held.get(topic, delivery) is not delivery:
                return False
            if self._held.pop(topic, None) is not None and self._connected:
                self._begin_replay()
            return True

    @property
    def live(self) -> int:
        """Number of messages that are live or in flight."""
        with self._lock:
            return len(self._live) + len(self._in_flight)

    @property
    def has_live(self) -> bool:
        """Whether there may be a live message to send. Read for every message, so without the lock."""
        return bool(self._live)

    @property
    def has_replayed(self) -> bool:
        """Whether a message to be replayed may be in memory. Read for every message, so without the lock."""
        return bool(self._loaded or self._waiting)

    @property
    def stats(self) -> OutboxStats:
        """Current outbox statistics."""
        with self._lock:
            reason = self._no_disk or self._hanging
            return OutboxStats(
                place="disk" if reason is None else "memory",
                reason=reason,
                waiting=len(self._unwritten)
                + max(0, self._disk.count - len(self._done)),  # a damaged ledger may be wrong
                bytes=self._unwritten_bytes + self._disk.bytes,
                replayed=self._replayed,
                dropped=self._dropped,
                expired=self._expired,
            )

    # -- for the writer

    @property
    def is_idle(self) -> bool:
        """Whether there is a connection and no message waits to be replayed."""
        with self._lock:
            return self._connected and self._disk.count <= len(self._done) and not self._waiting

    @property
    def in_memory_only(self) -> int:
        """Number of messages that are in memory and not on disk."""
        with self._lock:
            return len(self._unwritten)

    def due(self, everything: bool) -> list[Delivery]:
        """Return the messages that must be written now, oldest first."""
        now = time.monotonic_ns()
        with self._lock:
            made_before = now - PATIENCE_NS if self._connected and not everything else now
            return [delivery for delivery in self._unwritten if delivery.message.made_ns <= made_before]

    def removable(self, width: int) -> tuple[int, int] | None:
        """Return first and last of up to `width` consecutive numbers whose messages were answered or dropped.

        None if no such message is on disk. Until `removed` is called they are on disk, and not sent again.
        """
        with self._lock:
            return self._done.first_piece(width)

    def removed(self, first: int, last: int, disk: OnDisk) -> None:
        """Note that the messages with the numbers that `removable` returned are no longer on disk."""
        with self._lock:
            self._done.remove(first, last)
            self._disk = disk

    def written(self, added: Sequence[Delivery], numbers: Sequence[int], disk: OnDisk) -> None:
        """Note that messages are on disk."""
        with self._lock:
            for delivery, number in zip(added, numbers, strict=True):
                delivery.row = number
                self._forget_unwritten(delivery)
                if delivery.settled:
                    self._done.add(number)
            self._disk = disk

    def wanted(self) -> tuple[int, int] | None:
        """Return after and up to which number messages should be read from disk; None if enough are."""
        with self._lock:
            if not self._connected or len(self._loaded) >= READ_BELOW or self._cursor >= self._until:
                return None
            self._cursor = min(self._done.end_of_run(self._cursor), self._until)
            return self._cursor, self._until

    def load(self, span: tuple[int, int], deliveries: Sequence[Delivery], reached: int, disk: OnDisk) -> None:
        """Add messages read from disk for `span`, unless another replay began meanwhile."""
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
        """Let `choose` select the messages on disk to drop: those too many, and those too old.

        `choose` is given a function that says which numbers must not be selected. Selected messages are counted as
        dropped, not sent any more, and removable. Returns whether there are any.
        """
        with self._lock:
            busy = self._busy()
            full, old = choose(lambda number: number in busy or number in self._done)
            gone = {row.number for row in (*full, *old)}
            for number in gone:
                self._done.add(number)
            for delivery in (*self._loaded, *self._live, *self._waiting):
                delivery.settled = delivery.settled or delivery.row in gone
            for rows, expired in ((full, False), (old, True)):
                this_boot = Counter(row.topic for row in rows if row.this_boot)
                self._count_dropped(this_boot, len(rows) - this_boot.total(), expired)
            return bool(gone)

    def expire(self) -> None:
        """Drop messages in memory that are too old."""
        with self._lock:
            self._drop_unwritten(time.monotonic_ns() - self._age_ns)

    def use_disk(self, disk: OnDisk) -> None:
        """A file is open: its messages will be replayed. Whether it accepts more is reported by `report_disk`."""
        with self._lock:
            self._disk, self._readable = disk, True
            self._begin_replay()

    def lose_disk(self) -> None:
        """There is no file now: messages on disk are sent when it is back."""
        with self._lock:
            self._readable = False
            self._loaded.clear()
            self._cursor = self._until

    def report_disk(self, reason: str | None) -> None:
        """Set the reason why messages wait in memory only; None while they wait on disk."""
        with self._lock:
            self._no_disk = reason

    @contextmanager
    def disk_busy(self) -> Iterator[None]:
        """Mark that the disk is read or written; if this lasts too long, the disk hangs."""
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
        return "the disk does not respond" if hangs else None

    def _next(self, queue: deque[Delivery]) -> Delivery | None:
        while queue:
            delivery = queue.popleft()
            if not delivery.settled and delivery.message.topic not in self._held:
                self._in_flight[delivery] = None
                return delivery
        return None

    def _busy(self) -> set[int | None]:
        """Numbers of the messages that are in flight or hold their topic."""
        return {delivery.row for delivery in (*self._in_flight, *self._held.values())}

    def _begin_replay(self) -> None:
        """Replay all waiting messages: those on disk are read from the oldest on, then follow those in memory."""
        self._live.clear()
        self._loaded.clear()
        self._waiting = deque(delivery for delivery in self._unwritten if delivery not in self._in_flight)
        self._cursor, self._until = 0, self._disk.last if self._readable else 0

    def _forget_unwritten(self, delivery: Delivery) -> None:
        if delivery in self._unwritten:
            del self._unwritten[delivery]
            self._unwritten_bytes -= delivery.message.size

    def _drop_unwritten(self, before_ns: int | None = None) -> None:
        """Drop the oldest messages in memory: down to its limit, or all made before `before_ns`."""
        excess = self._unwritten_bytes - self._memory
        doomed = []
        for delivery in self._unwritten:
            if delivery in self._in_flight or self._held.get(delivery.message.topic) is delivery:
                continue
            if excess <= 0 if before_ns is None else delivery.message.made_ns >= before_ns:
                break
            doomed.append(delivery)
            excess -= delivery.message.size
        for delivery in doomed:
            delivery.settled = True
            self._forget_unwritten(delivery)
            self._count_dropped(Counter({delivery.message.topic: 1}), expired=before_ns is not None)

    def _count_dropped(self, this_boot: Counter[str], others: int = 0, expired: bool = False) -> None:
        count = this_boot.total() + others
        if expired:
            self._expired += count
        elif count:
            if not self._dropped:
                log.warning("outbox full, oldest messages dropped; further drops are only counted")
            self._dropped += count
        for topic, number in this_boot.items():
            self._on_dropped(topic, number)
