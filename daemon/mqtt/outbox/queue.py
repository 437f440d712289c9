"""The outbox in memory: messages that are live, messages to be replayed, and messages that are not written yet.

Live messages were made during the present connection: states and events are sent first, then frames. All others wait,
in memory, on disk or both, and are replayed in order beside the live ones. When a connection ends, all messages that
the broker has not answered will be replayed, and so are frames that have waited too long to be live.

Nothing here accesses the disk, so no thread that offers, sends or settles a message waits for it. The writer does.
"""

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence

from edgemeta.daemon.config.broker import OutboxConfig
from edgemeta.daemon.messages.stats import OutboxStats
from edgemeta.daemon.mqtt.outbox.delivery import Delivery, OutgoingMessage
from edgemeta.daemon.mqtt.outbox.disk_state import ANSWERS_WITHIN, DiskState, OnDisk
from edgemeta.daemon.mqtt.outbox.lateness import LIVE_FOR_NS, Lateness
from edgemeta.daemon.mqtt.outbox.losses import Losses
from edgemeta.daemon.mqtt.outbox.memory import Memory
from edgemeta.daemon.mqtt.outbox.patience import BATCH_NS, OUTAGE_BATCH_NS, Patience
from edgemeta.daemon.mqtt.outbox.retention import MEGABYTE
from edgemeta.daemon.mqtt.outbox.rows import Row
from edgemeta.daemon.mqtt.outbox.spans import Spans
from edgemeta.daemon.runtime.clock import NS

READ_BELOW = 250
"""With fewer messages than this read from disk, more are read."""


class Outbox:
    """Keeps messages for one link. Any thread may offer; the link's thread sends and settles, the writer's stores."""

    def __init__(self, config: OutboxConfig, on_dropped: Callable[[str, int], None]) -> None:
        """Make an empty outbox.

        on_dropped: called with topic and number of dropped messages of this boot, by one thread at a time.
        """
        self._memory = Memory(config.max_memory_mb * MEGABYTE)
        self._age_ns = int(config.max_age * NS)
        self._losses = Losses(on_dropped)
        self._lock = threading.Lock()
        self._connected = False
        self._patience = Patience()
        self._written_ns = 0
        self._lateness = Lateness()
        self._first: deque[Delivery] = deque()
        self._frames: deque[Delivery] = deque()
        self._waiting: deque[Delivery] = deque()
        self._loaded: deque[Delivery] = deque()
        self._in_flight: dict[Delivery, None] = {}
        self._held: dict[str, Delivery] = {}
        self._done = Spans()
        self._cursor = self._until = 0
        self._starved_since: float | None = None
        self._disk = OnDisk()
        self.disk = DiskState()
        self._readable = False
        self._replayed = 0
        self.changed = threading.Event()
        """Set when a connection begins or ends."""
        self.ready: Callable[[], None] = lambda: None
        """Called when messages to be replayed were read; the link sets it."""

    # -- for the worker and the link

    def offer(self, message: OutgoingMessage) -> None:
        """Add a message. If memory is full because the disk accepts none, the oldest one in memory is dropped."""
        delivery = Delivery(message)
        with self._lock:
            self._memory.add(delivery)
            if self._connected:
                delivery.live = True
                (self._frames if message.gives_way else self._first).append(delivery)
            if self._memory.excess > 0:
                self._bound_memory()

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
            self._written_ns = 0
            self._in_flight.clear()
            self._held.clear()
            self._begin_replay()
        self.changed.set()

    def next_live(self) -> Delivery | None:
        """Return the next live message, in flight from now on; None if there is none.

        States and events go before frames. Frames that have waited too long are put aside, to be replayed.
        """
        now = time.monotonic_ns()
        with self._lock:
            while self._frames and now - self._frames[0].message.made_ns > LIVE_FOR_NS:
                late = self._frames.popleft()
                late.live = False
                self._waiting.append(late)
                self._lateness.late(now)
            delivery = self._next(self._first) or self._next(self._frames)
            if delivery is not None and now - delivery.message.made_ns > LIVE_FOR_NS:
                delivery.historical = True
                self._lateness.late(now)
            return delivery

    def next_replayed(self) -> Delivery | None:
        """Return the oldest message to be replayed, in flight from now on; None if none waits or none is read yet."""
        with self._lock:
            delivery = self._next(self._loaded)
            if delivery is None and not self._must_wait_for_disk():
                delivery = self._next(self._waiting)
            if delivery is not None:
                delivery.replayed = delivery.historical = True
            return delivery

    def settle(self, delivery: Delivery) -> None:
        """Forget a message in flight: the broker has accepted or refused it."""
        with self._lock:
            if delivery not in self._in_flight:
                return
            del self._in_flight[delivery]
            delivery.settled = True
            self._replayed += delivery.historical
            if delivery.message.qos and delivery.sent_ns:
                self._patience.measured(time.monotonic_ns() - delivery.sent_ns)
            self._memory.forget(delivery)
            if delivery.row is not None:
                self._done.add(delivery.row)

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
                delivery.replayed = delivery.historical = True
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
            return len(self._first) + len(self._frames) + len(self._in_flight)

    @property
    def has_live(self) -> bool:
        """Whether there may be a live message to send. Read for every message, so without the lock."""
        return bool(self._first or self._frames)

    @property
    def has_replayed(self) -> bool:
        """Whether a message to be replayed may be in memory. Read for every message, so without the lock."""
        return bool(self._loaded or self._waiting)

    @property
    def line_is_slow(self) -> bool:
        """Whether the line has been slower than messages are made for some time."""
        with self._lock:
            return self._connected and self._lateness.is_lasting(time.monotonic_ns())

    @property
    def stats(self) -> OutboxStats:
        """Current outbox statistics."""
        with self._lock:
            reason = self.disk.reason
            return OutboxStats(
                place="disk" if reason is None else "memory",
                reason=reason,
                waiting=len(self._memory.unwritten)
                + max(0, self._disk.count - len(self._done)),  # a damaged ledger may be wrong
                bytes=self._memory.unwritten_bytes + self._disk.bytes,
                replayed=self._replayed,
                dropped=self._losses.dropped,
                expired=self._losses.expired,
                damaged=self._losses.damaged,
                written_bytes=self.disk.written_bytes,
            )

    # -- for the writer

    @property
    def is_idle(self) -> bool:
        """Whether there is a connection and no message waits to be replayed."""
        with self._lock:
            return self._connected and self._disk.count <= len(self._done) and not self._waiting

    @property
    def is_empty(self) -> bool:
        """Whether there is a connection and no message at all, neither in memory only nor on disk."""
        with self._lock:
            return self._connected and not self._memory.unwritten and not self._disk.count and not self._waiting

    @property
    def in_memory_only(self) -> int:
        """Number of messages that are in memory and not on disk."""
        with self._lock:
            return len(self._memory.unwritten)

    def due(self, everything: bool) -> list[Delivery]:
        """Return the messages that must be written now, oldest first.

        Without a connection all of a second, with one those that the broker should have acknowledged by now, of two.
        """
        now = time.monotonic_ns()
        with self._lock:
            if everything or self._memory.is_filling:
                return list(self._memory.unwritten)
            if now - self._written_ns < (BATCH_NS if self._connected else OUTAGE_BATCH_NS):
                return []
            made_before = now - (self._patience.ns if self._connected else 0)
            due = [delivery for delivery in self._memory.unwritten if delivery.message.made_ns <= made_before]
            if due:
                self._written_ns = now
            return due

    @property
    def answered(self) -> int:
        """Number of messages on disk that were answered or dropped."""
        with self._lock:
            return len(self._done)

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
                self._memory.written(delivery, number)
                if delivery.settled:
                    self._done.add(number)
            self._disk = disk

    def wanted(self) -> tuple[int, int] | None:
        """Return after and up to which number messages should be read from disk; None if enough are."""
        with self._lock:
            if not self._readable or len(self._loaded) >= READ_BELOW or self._cursor >= self._until:
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
            self._starved_since = None
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
            for delivery in (*self._loaded, *filter(None, map(self._memory.copy_of, gone))):
                if delivery.row in gone:
                    delivery.settled = True
                    self._memory.forget(delivery)
            for rows, expired in ((full, False), (old, True)):
                this_boot = Counter(row.topic for row in rows if row.this_boot)
                self._losses.add(this_boot, len(rows) - this_boot.total(), expired)
            return bool(gone)

    def expire(self) -> None:
        """Drop messages in memory that are too old."""
        with self._lock:
            self._drop_unwritten(time.monotonic_ns() - self._age_ns)

    def report_damaged(self, topics: Sequence[str]) -> None:
        """Count messages that the disk has damaged; topics: empty for those of other boots, or unknown ones."""
        with self._lock:
            self._losses.add_damaged(topics)

    def use_disk(self, disk: OnDisk) -> None:
        """A file is open: its messages will be replayed. Whether it accepts more is in `disk.problem`."""
        with self._lock:
            self._disk, self._readable = disk, True
            self._read_from_the_oldest()

    def lose_disk(self) -> None:
        """There is no file now: messages that are only on disk are sent when it is back."""
        with self._lock:
            self._readable = False

    # -- with the lock held

    def _next(self, queue: deque[Delivery]) -> Delivery | None:
        while queue:
            delivery = queue.popleft()
            delivery.live = False
            if not (delivery.settled or delivery.evicted or delivery.message.topic in self._held):
                self._in_flight[delivery] = None
                return delivery
        return None

    def _busy(self) -> set[int | None]:
        """Numbers of the messages that are in flight or hold their topic."""
        return {delivery.row for delivery in (*self._in_flight, *self._held.values())}

    def _begin_replay(self) -> None:
        """Replay all waiting messages: those only on disk are read from the oldest on, then follow those in memory."""
        for queue in (self._first, self._frames, self._waiting):
            queue.clear()
        for delivery in self._memory if self._connected else ():
            if delivery not in self._in_flight:
                delivery.live = False
                self._waiting.append(delivery)
        self._read_from_the_oldest()

    def _read_from_the_oldest(self) -> None:
        """Have all messages read that are only on disk; where there is no file now, those known to be in it."""
        self._loaded.clear()
        self._cursor = self._until = 0
        self._starved_since = None
        if self._connected and (self._readable or self._disk.count > len(self._done) + self._memory.copies):
            oldest = self._memory.oldest_copy
            self._until = self._disk.last if oldest is None or oldest.row is None else oldest.row - 1

    def _must_wait_for_disk(self) -> bool:
        """Whether messages on disk, which are older, should be sent first; a disk that does not answer is overtaken."""
        if self._cursor >= self._until:
            return False
        now = time.monotonic()
        if self._starved_since is None:
            self._starved_since = now
        return now - self._starved_since <= ANSWERS_WITHIN

    def _bound_memory(self) -> None:
        """Let go of the oldest copies of messages on disk, then drop the oldest messages, until the rest has room."""
        while self._memory.excess > 0 and (oldest := self._memory.oldest_copy) is not None:
            if oldest.live:
                self._begin_replay()
            oldest.evicted = True
            self._memory.forget(oldest)
            if self._connected and oldest.row is not None:
                self._until = max(self._until, oldest.row)
        if self._memory.excess > 0:
            self._drop_unwritten()

    def _drop_unwritten(self, before_ns: int | None = None) -> None:
        """Drop the oldest messages in memory: down to its limit, or all made before `before_ns`."""
        excess = self._memory.excess
        doomed = []
        for delivery in self._memory.unwritten:
            if delivery in self._in_flight or self._held.get(delivery.message.topic) is delivery:
                continue
            if excess <= 0 if before_ns is None else delivery.message.made_ns >= before_ns:
                break
            doomed.append(delivery)
            excess -= delivery.message.size
        for delivery in doomed:
            delivery.settled = True
            self._memory.forget(delivery)
            self._losses.add(Counter({delivery.message.topic: 1}), expired=before_ns is not None)
