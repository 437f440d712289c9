"""Whether messages can wait on disk: what keeps them from it, and how fast it is."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

ANSWERS_WITHIN = 10.0
"""Seconds after which a read or write counts as hanging. Memory cards do take seconds."""

SLOW_AFTER = 2.0
"""Seconds of writing in one go after which the disk counts as slow."""

SLOW_FOR = 30.0
"""Seconds for which it then does, so that the state of a disk does not flap."""


@dataclass(frozen=True)
class OnDisk:
    """Messages on disk, their bytes, and the greatest number ever given to one."""

    count: int = 0
    bytes: int = 0
    last: int = 0


class DiskState:
    """The writer reports; any thread may read. problem: why messages are not written at all, None if they are."""

    def __init__(self) -> None:
        self.problem: str | None = "it is not open yet"
        self.written_bytes = 0
        self._busy_since: float | None = None
        self._slow_at = -SLOW_FOR

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Mark that the disk is read or written; if this lasts too long, the disk is slow, and then it hangs."""
        self._busy_since = began = time.monotonic()
        try:
            yield
        finally:
            self._busy_since = None
            ended = time.monotonic()
            if ended - began > SLOW_AFTER:
                self._slow_at = ended

    @property
    def is_slow(self) -> bool:
        """Whether the disk took long lately."""
        return time.monotonic() - self._slow_at < SLOW_FOR

    @property
    def reason(self) -> str | None:
        """Why messages wait in memory; None while they wait on disk."""
        since = self._busy_since
        busy = 0.0 if since is None else time.monotonic() - since
        if self.problem is None and busy > ANSWERS_WITHIN:
            return "the disk does not respond"
        if self.problem is None and (busy > SLOW_AFTER or self.is_slow):
            return f"the disk is slow: it has needed more than {SLOW_AFTER:g} s to write"
        return self.problem
