"""When a camera whose source failed is opened again, and how long it waits before that."""

from enum import Enum

from edgemeta.daemon.config.section import RetryConfig
from edgemeta.daemon.runtime.backoff import Backoff

LATE_INITIAL, LATE_MAX = 60.0, 900.0
"""Seconds after a refused login: five attempts take a quarter of an hour, or a half of that by chance."""


class Retry(Enum):
    """What kind of failure it was, and so how soon another attempt makes sense."""

    SOON = "soon"
    """After the delays of the camera's `retry`."""
    AT_ONCE = "at once"
    """Nothing is wrong with the source, such as a new size of its frames: at once, if it has run for a while."""
    RESUME = "resume"
    """The same, for a server that has ended the stream, as some do from time to time: a failure only if the next
    attempt fails, too."""
    LATE = "late"
    """The source refuses us, and a camera locks an account after a few refused logins: late, and ever later."""


class RetryDelays:
    """The delays between the attempts of one camera."""

    def __init__(self, config: RetryConfig) -> None:
        self._soon = Backoff(config.initial_delay, config.max_delay)
        self._late = Backoff(LATE_INITIAL, LATE_MAX)

    def after(self, retry: Retry, ran: bool) -> float:
        """Return the seconds to wait after a failure. ran: whether the source had run for a while."""
        if retry is Retry.LATE:
            return self._late.next()
        if ran and retry in (Retry.AT_ONCE, Retry.RESUME):
            return 0.0
        return self._soon.next()

    def reset(self) -> None:
        """Begin with the shortest again: the source runs steadily."""
        self._soon.reset()
        self._late.reset()
