"""Limits the messages on a subscribed topic: to a rate, and during a flood to none.

Reading a message takes time of the link's thread that frames and acknowledgements need, even if it is dropped. And a
broker that cannot deliver its messages fast enough drops some, acknowledgements of ours among them. So a flooded topic
is unsubscribed for a while, and the broker does not send the flood any more (docs/decisions/0019).
"""

import logging
from collections import Counter
from enum import Enum

from edgemeta.daemon.runtime.clock import NS
from edgemeta.daemon.runtime.rate_limiter import RateLimiter

log = logging.getLogger(__name__)

FLOOD_ABOVE = 50
"""More messages than this within a second on one topic, and than ten times its rate, are a flood."""

FLOOD_ABOVE_WITHOUT_RATE = 1000
"""The same for topics without a rate: a broker sends all retained messages at once."""

PAUSE = 10
"""Seconds for which a flooded topic is unsubscribed. After as many seconds without another flood it is over."""

REFUSALS = 1
"""Messages per second that are refused with an answer; others above the rate are only counted."""

REASONS = ("too_long", "rate", "flood", "waiting")
"""Why messages are dropped."""


class Verdict(Enum):
    """What to do with a message: handle it, refuse it with an answer, or only count it."""

    HANDLE = 1
    REFUSE = 2
    DROP = 3


class FloodControl:
    """Decides about the messages on one topic filter. The link's thread calls it; any thread may read.

    rate: messages per second that are handled, and the size of a burst; None for no limit but that of a flood.
    """

    def __init__(self, topic_filter: str, rate: int | None = None) -> None:
        self.topic_filter = topic_filter
        self.dropped = Counter(dict.fromkeys(REASONS, 0))
        self.subscribed = False
        self.reason = ""
        self._rate = rate
        self._limiter = None if rate is None else RateLimiter(rate, NS)
        self._refusal_limiter = RateLimiter(REFUSALS)
        self._flood_above = FLOOD_ABOVE_WITHOUT_RATE if rate is None else max(FLOOD_ABOVE, 10 * rate)
        self._second, self._in_second = 0, 0
        self._paused_until_ns = 0
        self._calm_at_ns = 0
        self._dropped_before = 0

    @property
    def is_flooded(self) -> bool:
        """Whether there is a flood, or was one within the last pause."""
        return self._calm_at_ns > 0

    def judge(self, now_ns: int) -> Verdict:
        """Decide about a message received at a monotonic time; `reason` is then why it is not handled."""
        if now_ns < self._paused_until_ns:
            self.dropped["flood"] += 1
            return Verdict.DROP
        second = now_ns // NS
        self._in_second = self._in_second + 1 if second == self._second else 1
        self._second = second
        if self._in_second > self._flood_above:
            self._pause(now_ns)
            return Verdict.REFUSE  # once per pause
        if self._limiter is None:
            return Verdict.HANDLE
        if self._limiter.wait_ns(now_ns) == 0:
            self._limiter.take(now_ns)
            return Verdict.HANDLE
        self.dropped["rate"] += 1
        if self._refusal_limiter.wait_ns(now_ns):
            return Verdict.DROP
        self._refusal_limiter.take(now_ns)
        self.reason = f"at most {self._rate} per second"
        return Verdict.REFUSE

    def _pause(self, now_ns: int) -> None:
        self.reason = f"more than {self._flood_above} within a second; unsubscribed for {PAUSE} s"
        if not self.is_flooded:
            self._dropped_before = self.dropped.total()
            log.warning("flood of messages on %s: %s", self.topic_filter, self.reason)
        self.dropped["flood"] += 1
        self._paused_until_ns = now_ns + PAUSE * NS
        self._calm_at_ns = now_ns + 2 * PAUSE * NS
        if self._rate is not None:
            self._limiter = RateLimiter(self._rate, 0)  # after the pause, no burst: the flood may go on

    def is_wanted(self, now_ns: int) -> bool:
        """Whether the topic is to be subscribed now; logs the end of a flood."""
        if self.is_flooded and now_ns >= self._calm_at_ns:
            self._calm_at_ns = 0
            self._limiter = None if self._rate is None else RateLimiter(self._rate, NS)
            dropped = self.dropped.total() - self._dropped_before
            log.warning("flood of messages on %s has ended, %d dropped", self.topic_filter, dropped)
        return now_ns >= self._paused_until_ns
