"""Whether messages are old when they are sent, although there is a connection: it is slower than they are made."""

from edgemeta.daemon.runtime.clock import NS

LIVE_FOR_NS = 2 * NS
"""A message that is older when it is sent is marked as historical, whatever way it takes."""

SLOW_AFTER_NS = 5 * NS
"""The line counts as slow when messages have been late for so long: one stall is no lasting state."""

FAST_AFTER_NS = 15 * NS
"""And no more when none has been late for so long."""


class Lateness:
    """Follows messages that were late; all times are monotonic."""

    def __init__(self) -> None:
        self._first_ns = self._last_ns = -FAST_AFTER_NS - 1

    def late(self, now_ns: int) -> None:
        """Note that a message is late now."""
        if now_ns - self._last_ns > FAST_AFTER_NS:
            self._first_ns = now_ns
        self._last_ns = now_ns

    def is_lasting(self, now_ns: int) -> bool:
        """Whether the line is slower than messages are made."""
        return self._last_ns - self._first_ns >= SLOW_AFTER_NS and now_ns - self._last_ns <= FAST_AFTER_NS
