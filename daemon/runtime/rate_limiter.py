"""Token-bucket rate limiter; it allows small bursts, so that a waiting thread need not wake for each event."""

from edgemeta.daemon.runtime.clock import NS

BURST_NS = NS // 50
"""Default time for which unused capacity is kept."""


class RateLimiter:
    """Allows `rate` events per second on average, and one more than that in any `burst_ns`."""

    def __init__(self, rate: int, burst_ns: int = BURST_NS) -> None:
        self._step_ns = NS // rate
        self._burst_ns = burst_ns
        self._next_ns = 0

    def wait_ns(self, now_ns: int) -> int:
        """Return the nanoseconds to wait for the next event, 0 if it is allowed now."""
        return max(0, self._next_ns - now_ns)

    def take(self, now_ns: int) -> None:
        """Count one event."""
        self._next_ns = max(self._next_ns, now_ns - self._burst_ns) + self._step_ns
