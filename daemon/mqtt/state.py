"""Errors and status of the connection to the broker, with descriptions that distinguish the causes."""

import time
from dataclasses import dataclass, field

from paho.mqtt.reasoncodes import ReasonCode

from edgemeta.daemon.messages.broker_state import BrokerState
from edgemeta.model.errors import EdgemetaError

SLOW_RETRY = frozenset(
    {BrokerState.REFUSED_LOGIN, BrokerState.BAD_CERTIFICATE, BrokerState.CLIENT_ID_TAKEN, BrokerState.REFUSED}
)
"""States that a retry will not end soon: the next attempt comes after the longest wait."""


class LinkError(EdgemetaError):
    """A connection failed, was refused or broke. `state` is the resulting state, the text the reason."""

    def __init__(self, state: BrokerState, reason: str) -> None:
        super().__init__(reason)
        self.state = state


@dataclass(frozen=True)
class LinkStatus:
    """State of the link, since when (monotonic ns), and, unless it is connected, a description of the reason."""

    state: BrokerState
    reason: str | None = None
    since_ns: int = field(default_factory=time.monotonic_ns)


_LOGIN = frozenset({"Bad user name or password", "Not authorized", "Bad authentication method", "Banned"})
_CLIENT_ID = frozenset({"Client identifier not valid"})


def refusal(broker: str, reason: ReasonCode) -> LinkError:
    """Return the error for a connection that the broker refused."""
    state = BrokerState.REFUSED_LOGIN if str(reason) in _LOGIN else BrokerState.REFUSED
    return LinkError(state, f"broker {broker} refused the connection: {str(reason).lower()}")


CLOSED = "the broker closed it without a reason"
"""Reason for brokers that send no DISCONNECT: all with MQTT 3.1.1, and mosquitto 2.0.11, also with MQTT 5, when another
client takes over a client id."""


def loss(broker: str, client_id: str, reason: str) -> LinkError:
    """Return the error for the end of an accepted connection; `reason` is that of MQTT 5, or CLOSED."""
    if reason == CLOSED:
        return LinkError(
            BrokerState.LOST,
            f"connection to broker {broker} lost: {CLOSED}, as brokers do when another client connects with the client "
            f"id {client_id!r}, or when they are stopped",
        )
    if reason.lower() == "session taken over":
        return LinkError(
            BrokerState.CLIENT_ID_TAKEN, f"broker {broker}: another client has taken the client id {client_id!r}"
        )
    return LinkError(BrokerState.LOST, f"connection to broker {broker} lost: {reason.lower()}")


def unacknowledged(broker: str, seconds: float) -> LinkError:
    """Return the error for a broker that has not acknowledged a message for so many seconds."""
    return LinkError(BrokerState.UNACKNOWLEDGED, f"broker {broker} has not acknowledged a message for {seconds:g} s")
