"""The status of the connection to the broker, and its lines in the log."""

import logging
from collections.abc import Callable
from typing import Protocol

from edgemeta.daemon.messages.broker_state import BrokerState
from edgemeta.daemon.mqtt.state import LinkError, LinkStatus, unacknowledged

log = logging.getLogger(__name__)

LATE_AFTER = 2.0
"""Seconds after which an overdue acknowledgement changes the state to `unacknowledged`, on a line that is no slower."""


class Acknowledging(Protocol):
    """What a connection reports about acknowledgements."""

    acknowledged: bool

    @property
    def overdue(self) -> float:
        """Seconds for which the next acknowledgement has been awaited."""

    @property
    def expected_within(self) -> float:
        """Seconds that an acknowledgement may take on this line."""


class StatusTracker:
    """Keeps the status. The link's thread changes it, any thread may read `current`.

    broker: its address, for messages. ack_timeout: seconds that an acknowledgement may be overdue. line_is_slow: says
    whether messages wait too long for the connection. was_acknowledged: whether the broker acknowledged anything since
    the present attempt began.
    """

    def __init__(self, broker: str, ack_timeout: float, line_is_slow: Callable[[], bool]) -> None:
        self._broker = broker
        self._ack_timeout = ack_timeout
        self._line_is_slow = line_is_slow
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
        if overdue > max(LATE_AFTER, connection.expected_within):
            if self.current.state is not BrokerState.UNACKNOWLEDGED:  # else the last connection's reason stays
                self._set(BrokerState.UNACKNOWLEDGED, str(unacknowledged(self._broker, LATE_AFTER)))
        elif connection.acknowledged:
            if not self.was_acknowledged:
                self._log(logging.INFO, BrokerState.CONNECTED, f"connected to broker {self._broker}")
            self.was_acknowledged = True
            self._set_connected()

    def _set_connected(self) -> None:
        """Set the status of a connection on which messages are acknowledged."""
        was_slow = self.current.state is BrokerState.SLOW
        if self._line_is_slow():
            reason = f"broker {self._broker} takes messages more slowly than they are made: frames are late"
            self._set(BrokerState.SLOW, reason)
            if not was_slow:
                self._log(logging.WARNING, BrokerState.SLOW, reason)
        else:
            self._set(BrokerState.CONNECTED)
            if was_slow:
                self._log(logging.INFO, BrokerState.CONNECTED, f"broker {self._broker} takes messages in time again")

    def disconnected(self) -> None:
        """The connection has ended, and it is not known yet why."""
        if self.current.state in (BrokerState.CONNECTED, BrokerState.SLOW):
            self._set(BrokerState.CONNECTING)

    def failed(self, failure: LinkError, delay: float) -> None:
        """Set the status; log a failure as a warning, or for debugging while it stays the same."""
        level = logging.DEBUG if self.current.reason == str(failure) else logging.WARNING
        self._log(level, failure.state, f"{failure}; next try in {delay:.1f} s")
        self._set(failure.state, str(failure))

    def _log(self, level: int, state: BrokerState, text: str) -> None:
        log.log(level, "%s", text, extra={"broker": self._broker, "state": state.value})

    def _set(self, state: BrokerState, reason: str | None = None) -> None:
        """Change the status; where it stays the same, so does its time."""
        if (state, reason) != (self.current.state, self.current.reason):
            self.current = LinkStatus(state, reason)
