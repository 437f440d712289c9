"""How many messages on a subscribed topic are taken in: at most at a rate, and none while they are a flood.

Reading a message costs the link's thread time that frames and acknowledgements need, also where it is dropped. And a
broker that cannot pass its messages on fast enough drops some, acknowledgements of ours among them. So a topic that is
flooded is unsubscribed for a while, and the broker keeps the flood to itself (docs/decisions/0019).
"""

import logging
from collections import Counter
from enum import Enum

from edgemeta.daemon.runtime.clock import NS
from edgemeta.daemon.runtime.rate_limiter import RateLimiter

log = logging.getLogger(__name__)

FLOOD = 50
"""Messages within a second on one topic that are no flood yet, or ten times its rate where that is more."""

FLOOD_WITHOUT_RATE = 1000
"""The same for topics without a rate: a broker gives all that it has retained at once."""

PAUSE = 10
"""Seconds that a flooded topic is not subscribed. As many without another flood end it."""

REFUSALS = 1
"""Messages per second that are refused with an answer; the others are only counted."""

REASONS = ("too_long", "rate", "flood", "waiting")
"""Why messages are dropped."""


class Verdict(Enum):
    """What becomes of a message: handled, refused with an answer, or only counted."""

    HANDLE = 1
    REFUSE = 2
    DROP = 3


class FloodControl:
    """Judges the messages on one topic filter. The link's thread calls it; any thread may read.

    rate: messages per second that are handled, and as many at once; None for all that are no flood.
    """

    def __init__(self, topic_filter: str, rate: int | None = None) -> None:
        self.topic_filter = topic_filter
        self.dropped = Counter(dict.fromkeys(REASONS, 0))
        self.subscribed = False
        self.reason = ""
        self._rate = rate
        self._pace = None if rate is None else RateLimiter(rate, NS)
        self._refusals = RateLimiter(REFUSALS)
        self._most = FLOOD_WITHOUT_RATE if rate is None else max(FLOOD, 10 * rate)
        self._second, self._in_second = 0, 0
        self._paused_until_ns = 0
        self._calm_at_ns = 0
        self._dropped_before = 0

    @property
    def is_flooded(self) -> bool:
        """Whether there is a flood, or was one a moment ago."""
        return self._calm_at_ns > 0

    def judge(self, now_ns: int) -> Verdict:
        """Say what becomes of a message that came at a monotonic moment; `reason` then tells why not handled."""
        if now_ns < self._paused_until_ns:
            self.dropped["flood"] += 1
            return Verdict.DROP
        second = now_ns // NS
        self._in_second = self._in_second + 1 if second == self._second else 1
        self._second = second
        if self._in_second > self._most:
            self._pause(now_ns)
            return Verdict.REFUSE  # once for each pause
        if self._pace is None:
            return Verdict.HANDLE
        if self._pace.wait_ns(now_ns) == 0:
            self._pace.take(now_ns)
            return Verdict.HANDLE
        self.dropped["rate"] += 1
        if self._refusals.wait_ns(now_ns):
            return Verdict.DROP
        self._refusals.take(now_ns)
        self.reason = f"at most {self._rate} per second are carried out"
        return Verdict.REFUSE

    def _pause(self, now_ns: int) -> None:
        self.reason = f"more than {self._most} within a second, so that none is heard for {PAUSE} s"
        if not self.is_flooded:
            self._dropped_before = self.dropped.total()
            log.warning("flood of messages on %s: %s", self.topic_filter, self.reason)
        self.dropped["flood"] += 1
        self._paused_until_ns = now_ns + PAUSE * NS
        self._calm_at_ns = now_ns + 2 * PAUSE * NS
        if self._rate is not None:
            self._pace = RateLimiter(
                self._rate, 0
            )  # what comes first after a pause is the flood again: no burst of that

    def is_wanted(self, now_ns: int) -> bool:
        """Whether the topic is to be subscribed now; notes, too, where a flood has ended."""
        if self.is_flooded and now_ns >= self._calm_at_ns:
            self._calm_at_ns = 0
            self._pace = None if self._rate is None else RateLimiter(self._rate, NS)
            dropped = self.dropped.total() - self._dropped_before
            log.warning("no flood of messages on %s any more; %d were dropped", self.topic_filter, dropped)
        return now_ns >= self._paused_until_ns
