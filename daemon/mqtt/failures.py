"""Failures of the connection to the broker: how many of each kind, and how long to wait before the next attempt."""

from collections import Counter

from edgemeta.daemon.config.section import RetryConfig
from edgemeta.daemon.messages.broker_state import BrokerState
from edgemeta.daemon.messages.stats import BrokerFailures
from edgemeta.daemon.mqtt.state import SLOW_RETRY, LinkError
from edgemeta.daemon.runtime.backoff import Backoff, jittered

STEADY_AFTER = 5.0
"""Seconds that a connection must have lasted, acknowledged, for the waits to start at the first one again."""

SHORT_LIVED = 3
"""After this many short-lived connections in a row, assume that another client uses our client id: brokers that restart
and networks that fail refuse some connections. MQTT 3.1.1 cannot report it, and some brokers of MQTT 5 do not."""


class FailureTracker:
    """Counts failures, recognizes a second client with our client id, and decides when to retry.

    broker: its address, for messages. Only the link's thread adds; any thread may read.
    """

    def __init__(self, retry: RetryConfig, broker: str, client_id: str) -> None:
        self._cap = retry.max_delay
        self._backoff = Backoff(retry.initial_delay, retry.max_delay)
        self._broker = broker
        self._client_id = client_id
        self._counts: Counter[str] = Counter()
        self._short_lived = 0
        self.last: str | None = None
        """Description of the last failure; None before the first."""

    @property
    def counts(self) -> BrokerFailures:
        """Failures so far, by kind."""
        return BrokerFailures(**{name: self._counts[name] for name in BrokerFailures.model_fields})

    def add(self, failure: LinkError, lasted: float | None, differs: bool = False) -> tuple[LinkError, float]:
        """Count a failed attempt or a broken connection; return what it amounts to and the seconds until the next try.

        lasted: seconds that the connection lasted, 0 where nothing was acknowledged on it; None where the broker had
        not accepted it. differs: whether the next connection will be used differently.
        """
        if differs or (lasted is not None and lasted > STEADY_AFTER):
            self._backoff.reset()
            self._short_lived = 0
        elif lasted is not None and failure.may_be_taken_over:
            self._short_lived += 1
            if self._short_lived >= SHORT_LIVED:
                failure = self._client_id_conflict()
        else:
            self._short_lived = 0
        delay = jittered(self._cap) if failure.state in SLOW_RETRY and not failure.passes else self._backoff.next()
        self._counts[failure.state.value] += 1
        self.last = str(failure)
        return failure, delay

    def _client_id_conflict(self) -> LinkError:
        return LinkError(
            BrokerState.CLIENT_ID_TAKEN,
            f"broker {self._broker} accepts each connection and closes it soon after without a reason: another client "
            f"probably uses the client id {self._client_id!r}, too",
        )
