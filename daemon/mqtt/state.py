"""Errors and status of the connection to the broker, with descriptions that distinguish the causes."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from paho.mqtt.reasoncodes import ReasonCode

from edgemeta.daemon.messages.broker_state import BrokerState
from edgemeta.daemon.mqtt.answers import is_final
from edgemeta.daemon.mqtt.limits import BrokerLimits
from edgemeta.daemon.mqtt.suspects import Suspect
from edgemeta.model.errors import EdgemetaError

SLOW_RETRY = frozenset(
    {BrokerState.REFUSED_LOGIN, BrokerState.BAD_CERTIFICATE, BrokerState.CLIENT_ID_TAKEN, BrokerState.REFUSED}
)
"""States that a retry will not end soon: the next attempt comes after the longest wait."""


class LinkError(EdgemetaError):
    """A connection failed, was refused or broke. `state` is the resulting state, the text the reason.

    passes: whether the broker spoke of a moment, so that the next attempt comes soon. suspect: what probably made it
    close the connection. may_be_taken_over: whether another client with our id explains it.
    """

    def __init__(
        self,
        state: BrokerState,
        reason: str,
        *,
        passes: bool = False,
        suspect: Suspect | None = None,
        may_be_taken_over: bool = False,
    ) -> None:
        super().__init__(reason)
        self.state = state
        self.passes = passes
        self.suspect = suspect
        self.may_be_taken_over = may_be_taken_over

    def detached(self) -> "LinkError":
        """Return it without a traceback, whose frames would keep the connection alive."""
        return LinkError(
            self.state,
            str(self),
            passes=self.passes,
            suspect=self.suspect,
            may_be_taken_over=self.may_be_taken_over,
        )


@dataclass(frozen=True)
class LinkStatus:
    """State of the link, since when (monotonic ns), and, unless it is connected, a description of the reason."""

    state: BrokerState
    reason: str | None = None
    since_ns: int = field(default_factory=time.monotonic_ns)


class LimitsError(LinkError):
    """A connection that the broker refused because it asked for too much; `narrower` are limits to try, in order."""

    def __init__(self, state: BrokerState, reason: str, narrower: Sequence[BrokerLimits]) -> None:
        super().__init__(state, reason)
        self.narrower = narrower


class UnansweredError(LimitsError):
    """The broker closed the connection instead of answering."""

    def __init__(self, broker: str, narrower: Sequence[BrokerLimits]) -> None:
        reason = f"broker {broker} closed the connection before it answered"
        super().__init__(BrokerState.UNREACHABLE, reason, narrower)


_LOGIN = frozenset({"Bad user name or password", "Not authorized", "Bad authentication method", "Banned"})


def refusal(broker: str, reason: ReasonCode, limits: BrokerLimits) -> LinkError:
    """Return the error for a connection with these limits that the broker refused."""
    name = str(reason)
    text = f"broker {broker} refused the connection: {name.lower()}"
    if name == "Retain not supported" and limits.retain:
        return LimitsError(BrokerState.REFUSED, text, (replace(limits, retain=False),))
    if name == "QoS not supported" and limits.qos:
        return LimitsError(BrokerState.REFUSED, text, (replace(limits, qos=0),))
    if name == "Unsupported protocol version":
        text += ", see `mqtt.version`"
    return LinkError(
        BrokerState.REFUSED_LOGIN if name in _LOGIN else BrokerState.REFUSED, text, passes=not is_final(reason)
    )


CLOSED = "the broker closed it without a reason"
"""Reason for brokers that send no DISCONNECT: all with MQTT 3.1.1, and mosquitto 2.0.11, also with MQTT 5, when another
client takes over a client id."""


def closed(broker: str, client_id: str, explanation: str | None) -> LinkError:
    """Return the error for a connection that the broker closed without a reason and with nothing unanswered."""
    others = f"as brokers do when another client connects with the client id {client_id!r}, or when they are stopped"
    text = f"connection to broker {broker} lost: {CLOSED}"
    if explanation is not None:
        return LinkError(BrokerState.LOST, f"{text} {explanation}")
    return LinkError(BrokerState.LOST, f"{text}, {others}", may_be_taken_over=True)


def loss(broker: str, client_id: str, reason: str, suspect: Suspect | None) -> LinkError:
    """Return the error for another end of an accepted connection; `reason` is that of MQTT 5, or CLOSED."""
    if reason.lower() == "session taken over":
        return LinkError(
            BrokerState.CLIENT_ID_TAKEN, f"broker {broker}: another client has taken the client id {client_id!r}"
        )
    after = "" if suspect is None else f" after {suspect.sent.description} was sent"
    return LinkError(BrokerState.LOST, f"connection to broker {broker} lost: {reason.lower()}{after}", suspect=suspect)


def unacknowledged(broker: str, seconds: float) -> LinkError:
    """Return the error for a broker that has not acknowledged a message for so many seconds."""
    return LinkError(BrokerState.UNACKNOWLEDGED, f"broker {broker} has not acknowledged a message for {seconds:g} s")
