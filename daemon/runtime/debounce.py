"""A condition that changes only after it has held for a while, so that reports of it do not flap."""

import time


class Debounced:
    """Whether something is so. It becomes so after `rises` seconds, and ceases to be after `falls`. One thread sets."""

    def __init__(self, value: bool, rises: float, falls: float) -> None:
        self.value = value
        self._patience = {True: rises, False: falls}
        self._since: float | None = None

    def set(self, seen: bool) -> bool:
        """Take what is seen now; return whether `value` has changed."""
        if seen == self.value:
            self._since = None
            return False
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        if now - self._since < self._patience[seen]:
            return False
        self.value, self._since = seen, None
        return True
