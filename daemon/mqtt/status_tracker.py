"""The status of the connection to the broker, and its lines in the log."""

import logging
from typing import Protocol

from edgemeta.daemon.messages.broker_state import BrokerState
from edgemeta.daemon.mqtt.state import LinkError, LinkStatus, unacknowledged

log = logging.getLogger(__name__)

LATE_AFTER = 2.0
"""Seconds after which an overdue acknowledgement changes the state to `unacknowledged`."""


class Acknowledging(Protocol):
    """What a connection reports about acknowledgements."""

    acknowledged: bool

    @property
    def overdue(self) -> float:
        """Seconds for which the next acknowledgement has been awaited."""


class StatusTracker:
    """Keeps the status. The link's thread changes it, any thread may read `current`.

    broker: its address, for messages. ack_timeout: seconds that an acknowledgement may be overdue. was_acknowledged:
    whether the broker acknowledged anything since the present attempt began.
    """

    def __init__(self, broker: str, ack_timeout: float) -> None:
        self._broker = broker
        self._ack_timeout = ack_timeout
        self.current = LinkStatus(BrokerState.CONNECTING)
        self.was_acknowledged = False

    def begin_attempt(self) -> None:
        """Nothing is acknowledged yet. The status stays that of the last failure until something is."""
        self.was_acknowledged = False

    def check(self, connection: Acknowledging) -> None:
        """Set the status by what the broker acknowledges. Raises LinkError where it is overdue for too long."""
        overdue = connection.overdue
        if overdue > self._ack_timeout:
            raise unacknowledged(self._broker, self._ack_timeout)
        if overdue > LATE_AFTER:
            if self.current.state is not BrokerState.UNACKNOWLEDGED:  # else the last connection's reason stays
                self._set(BrokerState.UNACKNOWLEDGED, str(unacknowledged(self._broker, LATE_AFTER)))
        elif connection.acknowledged:
            self._set(BrokerState.CONNECTED)
            if not self.was_acknowledged:
                fields = {"broker": self._broker, "state": BrokerState.CONNECTED.value}
                log.info("connected to broker %s", self._broker, extra=fields)
            self.was_acknowledged = True

    def disconnected(self) -> None:
        """The connection has ended, and it is not known yet why."""
        if self.current.state is BrokerState.CONNECTED:
            self._set(BrokerState.CONNECTING)

    def failed(self, failure: LinkError, delay: float) -> None:
        """Set the status; log a failure as a warning, or for debugging while it stays the same."""
        level = logging.DEBUG if self.current.reason == str(failure) else logging.WARNING
        fields = {"broker": self._broker, "state": failure.state.value}
        log.log(level, "%s; next try in %.1f s", failure, delay, extra=fields)
        self._set(failure.state, str(failure))

    def _set(self, state: BrokerState, reason: str | None = None) -> None:
        """Change the status; where it stays the same, so does its time."""
        if (state, reason) != (self.current.state, self.current.reason):
            self.current = LinkStatus(state, reason)
