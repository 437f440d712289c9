"""How the connection to the broker stands, in words that tell causes apart."""

import time
from dataclasses import dataclass, field

from paho.mqtt.reasoncodes import ReasonCode

from edgemeta.daemon.messages.broker_state import BrokerState
from edgemeta.model.errors import EdgemetaError

SLOW_RETRY = frozenset(
    {BrokerState.REFUSED_LOGIN, BrokerState.BAD_CERTIFICATE, BrokerState.CLIENT_ID_TAKEN, BrokerState.REFUSED}
)
"""States that another try will not cure soon: the next comes after the longest wait."""


class LinkError(EdgemetaError):
    """A connection that could not be made, was refused or broke, with the state that this leaves and the reason."""

    def __init__(self, state: BrokerState, reason: str) -> None:
        super().__init__(reason)
        self.state = state


@dataclass(frozen=True)
class LinkStatus:
    """Where the link stands, since which monotonic nanosecond, and why in words where it is not connected."""

    state: BrokerState
    reason: str | None = None
    since_ns: int = field(default_factory=time.monotonic_ns)


_LOGIN = frozenset({"Bad user name or password", "Not authorized", "Bad authentication method", "Banned"})
_CLIENT_ID = frozenset({"Client identifier not valid"})


def refusal(place: str, reason: ReasonCode) -> LinkError:
    """Return what a broker's refusal of a connection means."""
    state = BrokerState.REFUSED_LOGIN if str(reason) in _LOGIN else BrokerState.REFUSED
    return LinkError(state, f"broker {place} refused the connection: {str(reason).lower()}")


CLOSED = "the broker closed it without a reason"
"""How a connection ends at brokers that send no DISCONNECT: all of MQTT 3.1.1, and mosquitto 2.0.11 when a client id is
taken over, with MQTT 5, too."""


def loss(place: str, client_id: str, reason: str) -> LinkError:
    """Return what the end of an accepted connection means; `reason` in the words of MQTT 5, or CLOSED."""
    if reason == CLOSED:
        return LinkError(
            BrokerState.LOST,
            f"connection to broker {place} lost: {CLOSED}, as brokers do when another client connects with the client "
            f"id {client_id!r}, or when they are ended",
        )
    if reason.lower() == "session taken over":
        return LinkError(
            BrokerState.CLIENT_ID_TAKEN, f"broker {place}: another client has taken the client id {client_id!r}"
        )
    return LinkError(BrokerState.LOST, f"connection to broker {place} lost: {reason.lower()}")
