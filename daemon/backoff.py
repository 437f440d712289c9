"""How long to wait before the next try: doubling, capped, jittered, so that a thousand devices do not knock at once."""

import random


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
        jitter = 0.5 + random.random() / 2  # noqa: S311 - spreads load, guards nothing
        return min(self._cap, self._first * 2.0**doublings) * jitter

    def reset(self) -> None:
        """Start again from the first step: the last try went well."""
        self._failures = 0
