"""Whether damaged pictures last: some of them are part of every lossy link."""

from collections import deque

from edgemeta.daemon.runtime.clock import NS

WITHIN_NS = 10 * NS
"""Damage that comes again within this time lasts."""

LASTS, APART_NS = 3, NS
"""So often, at least this far apart: what comes at once is one incident."""

ENDS_AFTER_NS = 30 * NS
"""How long no picture must be damaged until the damage is over."""


class Damage:
    """Counts the damaged pictures of a camera, over several openings of its source."""

    def __init__(self) -> None:
        self.total = 0
        """Damaged pictures and errors of the decoder since the start."""
        self._of_source = 0
        self._times: deque[int] = deque(maxlen=LASTS)
        self.lasts = False
        """Whether pictures are damaged again and again."""

    def begin(self) -> None:
        """The source was opened: it counts from 0."""
        self._of_source = 0

    def add(self, of_source: int, now_ns: int) -> None:
        """Take the source's count at a monotonic time."""
        grown, self._of_source = of_source - self._of_source, of_source
        self.total += grown
        if grown and not (self._times and now_ns - self._times[-1] < APART_NS):
            self._times.append(now_ns)
        if not self._times:
            return
        since_first, since_last = now_ns - self._times[0], now_ns - self._times[-1]
        comes_again = len(self._times) == LASTS and since_first < WITHIN_NS
        self.lasts = comes_again or (self.lasts and since_last < ENDS_AFTER_NS)
