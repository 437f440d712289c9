"""So many per second and no more, in small bursts so that the waiting thread need not wake for each."""

from edgemeta.daemon.runtime.clock import NS

BURST_NS = NS // 50
"""What was not used is saved up for this long, unless told otherwise."""


class RateLimiter:
    """Allows `rate` things per second, on average and in any `burst_ns` but for one more."""

    def __init__(self, rate: int, burst_ns: int = BURST_NS) -> None:
        self._step_ns = NS // rate
        self._burst_ns = burst_ns
        self._next_ns = 0

    def wait_ns(self, now_ns: int) -> int:
        """Return how long to wait for the next thing, 0 for none."""
        return max(0, self._next_ns - now_ns)

    def take(self, now_ns: int) -> None:
        """Count one thing."""
        self._next_ns = max(self._next_ns, now_ns - self._burst_ns) + self._step_ns
