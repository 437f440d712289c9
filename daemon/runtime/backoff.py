"""How long to wait before the next try: doubling, capped, jittered, so that a thousand devices do not knock at once."""

import random

_RANDOM = random.SystemRandom()
"""Its own source: devices that start alike differ, and programs that seed Python's shared one are not disturbed."""


def jittered(seconds: float) -> float:
    """Return a random half to whole of some seconds."""
    return seconds * (0.5 + _RANDOM.random() / 2)


class Backoff:
    """Waiting times in seconds: n-th = min(cap, first · 2^n) · u with u uniform in [0.5, 1)."""

    def __init__(self, first: float, cap: float) -> None:
        self._first = first
        self._cap = cap
        self._failures = 0

    def next(self) -> float:
        """Return the seconds to wait after one more failure."""
        doublings = min(self._failures, 32)  # 2^32 first-steps is beyond any cap; more would overflow a float
        self._failures += 1
        return jittered(min(self._cap, self._first * 2.0**doublings))

    def reset(self) -> None:
        """Start again from the first step: the last try went well."""
        self._failures = 0
