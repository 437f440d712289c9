"""Packets that were sent on one connection and wait for the broker's acknowledgement."""

import time
from collections.abc import Collection
from typing import Generic, TypeVar

T = TypeVar("T")


class InFlight(Generic[T]):
    """What was sent, by packet identifier, in the order in which it was sent.

    A broker acknowledges messages in the order in which it received them (MQTT 5, 4.6). So the clock of an
    acknowledgement starts when its packet has become the oldest: over a slow line a full window may take long, while
    an acknowledgement that was lost is noticed although later ones come.
    """

    def __init__(self) -> None:
        self._sent: dict[int, T] = {}
        self._oldest_since = 0.0

    def __len__(self) -> int:
        return len(self._sent)

    def add(self, identifier: int, sent: T) -> None:
        """Note what was sent just now."""
        if not self._sent:
            self._oldest_since = time.monotonic()
        self._sent[identifier] = sent

    def take(self, identifier: int) -> T | None:
        """Return what is acknowledged now, and forget it; None where nothing of that identifier waits."""
        is_oldest = next(iter(self._sent), None) == identifier
        sent = self._sent.pop(identifier, None)
        if is_oldest:
            self._oldest_since = time.monotonic()
        return sent

    @property
    def waiting(self) -> Collection[T]:
        """What is not acknowledged yet."""
        return self._sent.values()

    @property
    def overdue(self) -> float:
        """Seconds that the oldest has waited since it became the oldest; 0 where nothing waits."""
        return time.monotonic() - self._oldest_since if self._sent else 0.0
