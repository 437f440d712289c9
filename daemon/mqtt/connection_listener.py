"""What follows each connection to the broker from its acceptance to its end."""

from typing import Protocol

from edgemeta.daemon.mqtt.limits import BrokerLimits
from edgemeta.daemon.mqtt.subscriber import Subscriber


class ConnectionListener(Protocol):
    """Called in the link's thread, so it must not block."""

    def connected(self, subscriber: Subscriber, limits: BrokerLimits) -> None:
        """The broker has accepted the connection; limits: what it takes."""

    def poll(self, subscriber: Subscriber) -> None:
        """Called several times a second while the connection lasts."""

    def disconnected(self, subscriber: Subscriber) -> None:
        """The connection has ended."""
