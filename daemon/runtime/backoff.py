"""Retry delays: exponential backoff with a maximum and jitter, so that many devices do not retry at once."""

import random

_RANDOM = random.SystemRandom()
"""A separate generator: it differs between devices, and does not disturb programs that seed Python's shared one."""


def jittered(seconds: float) -> float:
    """Return a random half to whole of some seconds."""
    return seconds * (0.5 + _RANDOM.random() / 2)


class Backoff:
    """Delays in seconds: the n-th is min(max_delay, initial_delay · 2^n) · u, with u uniform in [0.5, 1)."""

    def __init__(self, initial_delay: float, max_delay: float) -> None:
        self._initial_delay = initial_delay
        self._max_delay = max_delay
        self._failures = 0

    def next(self) -> float:
        """Return the seconds to wait after another failure."""
        doublings = min(self._failures, 32)  # 2^32 initial delays exceed any maximum; more would overflow
        self._failures += 1
        return jittered(min(self._max_delay, self._initial_delay * 2.0**doublings))

    def reset(self) -> None:
        """Restart with the initial delay, after a success."""
        self._failures = 0
