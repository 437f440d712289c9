"""Counts the messages that an outbox loses, by reason, and reports them by topic."""

import logging
from collections import Counter
from collections.abc import Callable, Sequence

log = logging.getLogger(__name__)


class Losses:
    """on_dropped: called with topic and number of messages of this boot."""

    def __init__(self, on_dropped: Callable[[str, int], None]) -> None:
        self._on_dropped = on_dropped
        self.dropped = self.expired = self.damaged = 0

    def add(self, this_boot: Counter[str], others: int = 0, expired: bool = False) -> None:
        """Count messages that were too old, or else too many: those of this boot by topic, and the number of others."""
        count = this_boot.total() + others
        if expired:
            self.expired += count
        elif count:
            if not self.dropped:
                log.warning("outbox full, oldest messages dropped; further drops are only counted")
            self.dropped += count
        for topic, number in this_boot.items():
            self._on_dropped(topic, number)

    def add_damaged(self, topics: Sequence[str]) -> None:
        """Count messages that the disk has damaged; topics: empty for those of other boots, or unknown ones."""
        if topics and not self.damaged:
            log.warning("outbox: the disk has damaged %d messages; they are dropped, more are counted", len(topics))
        self.damaged += len(topics)
        for topic in filter(None, topics):
            self._on_dropped(topic, 1)
