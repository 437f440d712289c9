"""What a broker takes: from the CONNACK of MQTT 5, and from connections that it refused because of the last will."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from paho.mqtt.properties import Properties

WINDOW = 100
"""Greatest number of unacknowledged messages; a broker may ask for fewer."""


@dataclass(frozen=True)
class BrokerLimits:
    """Limits of a broker.

    qos: the highest that may be used. retain: whether it keeps retained messages. wildcards: whether it takes
    subscriptions with `+`. largest_packet: in bytes, None for no limit. window: unacknowledged messages at once.
    """

    qos: int
    retain: bool = True
    wildcards: bool = True
    largest_packet: int | None = None
    window: int = WINDOW

    def narrowed_by(self, connack: Properties | None) -> "BrokerLimits":
        """Return these limits and those of an accepted connection; MQTT 3.1.1 has none. An absent one is no limit."""
        return BrokerLimits(
            qos=min(self.qos, getattr(connack, "MaximumQoS", self.qos)),
            retain=self.retain and getattr(connack, "RetainAvailable", 1) == 1,
            wildcards=getattr(connack, "WildcardSubscriptionAvailable", 1) == 1,
            largest_packet=getattr(connack, "MaximumPacketSize", None),
            window=min(WINDOW, getattr(connack, "ReceiveMaximum", WINDOW)),
        )

    def narrower(self) -> Iterator["BrokerLimits"]:
        """Return the limits to try after a broker of MQTT 3.1.1 closed the connection instead of answering."""
        if self.retain:
            yield replace(self, retain=False)
            if self.qos:
                yield replace(self, retain=False, qos=0)

    def missing(self, wanted_qos: int) -> str | None:
        """Describe what is lost with this broker; None if nothing is."""
        parts = [] if self.retain else ["no retained messages: subscribers wait for the next one of each topic"]
        if self.qos < wanted_qos:
            parts.append("only QoS 0: messages may be lost on the way without a count")
        return "; ".join(parts) or None
