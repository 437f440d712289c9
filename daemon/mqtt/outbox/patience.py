"""How long the broker of one line may take to acknowledge a message before it is written to disk."""

from edgemeta.daemon.runtime.clock import NS

LEAST_NS, MOST_NS = NS // 4, 10 * NS
"""The shortest patience, for a fast line, and the longest: a killed process may lose messages of that age."""

FIRST_NS = 5 * NS
"""Patience before any acknowledgement was measured."""

BATCH_NS = 2 * NS
"""Least time between two writes while there is a connection: each takes pages of 4 KiB, however few messages it has."""

OUTAGE_BATCH_NS = NS
"""The same without a connection: what a killed process may lose then."""


class Patience:
    """2·S + 4·V, with S and V the smoothed round-trip time and its mean deviation (as RFC 6298 has them).

    Twice what TCP's retransmission waits for: acknowledgements that are as late as usual never lead to a write.
    """

    def __init__(self) -> None:
        self._smoothed = self._deviation = 0.0
        self.ns = FIRST_NS

    def measured(self, took_ns: int) -> None:
        """Take account of a message that was acknowledged `took_ns` after it was sent."""
        if not self._smoothed:
            self._smoothed, self._deviation = float(took_ns), took_ns / 2
        else:
            self._deviation += (abs(took_ns - self._smoothed) - self._deviation) / 4
            self._smoothed += (took_ns - self._smoothed) / 8
        self.ns = int(min(max(2 * self._smoothed + 4 * self._deviation, LEAST_NS), MOST_NS))
