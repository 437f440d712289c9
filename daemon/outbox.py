"""Messages between the worker and the broker, in order, in memory, bounded.

A message waits, is in flight, and is done when the broker has taken it. What was in flight when a connection broke goes
back to the front, so that nothing accepted is lost while the process lives; a subscriber may then see it twice.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True, eq=False)
class Outgoing:
    """One message to publish. `taken` is called, from the MQTT thread, when the broker has taken it."""

    topic: str
    payload: bytes
    qos: int
    retain: bool
    taken: Callable[["Outgoing"], None] | None = None
    made_ns: int = field(default_factory=time.monotonic_ns)


class Outbox:
    """A bounded first-in-first-out queue of messages, of which the first few are in flight."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._waiting: deque[Outgoing] = deque()
        self._in_flight: dict[int, Outgoing] = {}
        self._lock = threading.Lock()

    def offer(self, message: Outgoing) -> bool:
        """Take a message; False, and nothing kept, where the outbox is full."""
        with self._lock:
            if len(self._waiting) + len(self._in_flight) >= self._capacity:
                return False
            self._waiting.append(message)
            return True

    def send(self) -> Outgoing | None:
        """Give the oldest waiting message, which is in flight from now on; None where none waits."""
        with self._lock:
            if not self._waiting:
                return None
            message = self._waiting.popleft()
            self._in_flight[id(message)] = message
            return message

    def done(self, message: Outgoing) -> None:
        """Forget a message in flight: the broker has taken or refused it."""
        with self._lock:
            del self._in_flight[id(message)]

    def give_back(self) -> None:
        """Let everything in flight wait again, in the old order, before all others."""
        with self._lock:
            self._waiting.extendleft(reversed(self._in_flight.values()))
            self._in_flight.clear()

    def __len__(self) -> int:
        with self._lock:
            return len(self._waiting) + len(self._in_flight)
