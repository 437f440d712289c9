"""Packets that were sent on one connection and are not acknowledged yet."""

from collections.abc import Collection
from typing import Generic, TypeVar

from edgemeta.daemon.runtime.awake import AWAKE

T = TypeVar("T")


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
