"""Packets that were sent on one connection and are not acknowledged yet, and how many these may be.

As many as the line carries soon, however many the broker would take.
"""

import time
from collections import deque
from collections.abc import Collection
from typing import Generic, TypeVar

from edgemeta.daemon.mqtt.limits import WINDOW
from edgemeta.daemon.runtime.awake import AWAKE
from edgemeta.daemon.runtime.clock import NS

T = TypeVar("T")

FIRST = 16
"""Messages in flight before it is known how fast the line is."""
LIVE_SHARE = 4
"""One in so many messages of the window must be a live one: replayed messages leave room for them."""
SOON_NS = 3 * NS // 2
"""How long an acknowledgement may take: a new state waits behind everything that is in flight."""


class Window:
    """The window of one connection.

    Where an acknowledgement takes longer than `soon_ns`, it shrinks to the number of acknowledgements within that time
    (Little's law: in flight = rate · time). While it is full, it grows by one for each within three quarters of it.
    """

    def __init__(self) -> None:
        self.limit = WINDOW
        self._size = FIRST
        self._shortest_ns = 0
        self._recent: deque[int] = deque()

    @property
    def size(self) -> int:
        """Messages that may be in flight."""
        return min(self._size, self.limit)

    @property
    def size_for_replayed(self) -> int:
        """Messages that may be in flight where the next one is a replayed one, with room left for live ones."""
        return self.size - self.size // LIVE_SHARE

    @property
    def soon_ns(self) -> int:
        """How long an acknowledgement may take: twice the shortest of the connection is never too long."""
        return max(SOON_NS, 2 * self._shortest_ns)

    def answered(self, sent_ns: int, in_flight: int) -> None:
        """Take account of the answer to a message that was sent at `sent_ns`; in_flight: messages until then."""
        now = time.monotonic_ns()
        took = now - sent_ns
        self._shortest_ns = min(self._shortest_ns or took, took)
        soon = self.soon_ns
        self._recent.append(now)
        while now - self._recent[0] > soon:
            self._recent.popleft()
        if took > soon:
            self._size = min(self._size, max(1, len(self._recent) - 1))
        elif took < 3 * soon // 4 and in_flight >= self.size - 1:
            self._size = min(self._size + 1, self.limit)


class InFlight(Generic[T]):
    """Sent packets by packet identifier, in the order in which they were sent.

    A broker acknowledges messages in the order in which it received them (MQTT 5, 4.6). So the time of an
    acknowledgement starts when its packet has become the oldest: over a slow line a full window may take long, while
    a lost acknowledgement is noticed although later ones arrive.
    """

    def __init__(self) -> None:
        self._sent: dict[int, T] = {}
        self._oldest_since = 0.0

    def __len__(self) -> int:
        return len(self._sent)

    def add(self, identifier: int, sent: T) -> None:
        """Add what was sent just now."""
        if not self._sent:
            self._oldest_since = AWAKE.now()
        self._sent[identifier] = sent

    def take(self, identifier: int) -> T | None:
        """Remove and return what is acknowledged now; None if nothing with that identifier is in flight."""
        is_oldest = next(iter(self._sent), None) == identifier
        sent = self._sent.pop(identifier, None)
        if is_oldest:
            self._oldest_since = AWAKE.now()
        return sent

    @property
    def waiting(self) -> Collection[T]:
        """Everything that is not acknowledged yet."""
        return self._sent.values()

    @property
    def overdue(self) -> float:
        """Seconds since the oldest became the oldest; 0 if nothing is in flight."""
        return AWAKE.now() - self._oldest_since if self._sent else 0.0
