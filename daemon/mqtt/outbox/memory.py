"""The messages of an outbox in memory, and their bytes."""

from collections.abc import Iterator
from itertools import chain

from edgemeta.daemon.mqtt.outbox.delivery import Delivery


class Memory:
    """Messages that are only in memory (`unwritten`), and, while there is room, copies of the newest ones on disk.

    So a replay reads from disk only what is older than these, and not at all after a short outage.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._copies: dict[int, Delivery] = {}
        self._copied_bytes = 0
        self.unwritten: dict[Delivery, None] = {}
        self.unwritten_bytes = 0

    def __iter__(self) -> Iterator[Delivery]:
        """Yield all messages, oldest first."""
        return chain(self._copies.values(), self.unwritten)

    @property
    def excess(self) -> int:
        """Bytes above the limit; not positive if there is room."""
        return self.unwritten_bytes + self._copied_bytes - self._limit

    @property
    def oldest_copy(self) -> Delivery | None:
        """The oldest message that is on disk, too; None if there is none."""
        return next(iter(self._copies.values()), None)

    @property
    def is_filling(self) -> bool:
        """Whether messages should be written at once, before there is no room left."""
        return self.unwritten_bytes > self._limit // 4

    @property
    def copies(self) -> int:
        """Number of messages that are on disk, too."""
        return len(self._copies)

    def add(self, delivery: Delivery) -> None:
        """Add the newest message."""
        self.unwritten[delivery] = None
        self.unwritten_bytes += delivery.message.size

    def written(self, delivery: Delivery, row: int) -> None:
        """Note that a message is on disk; unless it was answered meanwhile, it stays as a copy."""
        delivery.row = row
        if self.forget(delivery):
            self._copies[row] = delivery
            self._copied_bytes += delivery.message.size

    def forget(self, delivery: Delivery) -> bool:
        """Remove a message; return whether it was here and on no disk."""
        if delivery in self.unwritten:
            del self.unwritten[delivery]
            self.unwritten_bytes -= delivery.message.size
            return True
        if delivery.row is not None and self._copies.pop(delivery.row, None) is not None:
            self._copied_bytes -= delivery.message.size
        return False

    def copy_of(self, row: int) -> Delivery | None:
        """Return the copy of a message on disk; None if it is not in memory."""
        return self._copies.get(row)
