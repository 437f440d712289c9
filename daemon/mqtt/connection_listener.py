"""What follows each connection to the broker from its acceptance to its end."""

from typing import Protocol

from edgemeta.daemon.mqtt.connection import Connection


class ConnectionListener(Protocol):
    """Called in the link's thread, so it must not block."""

    def connected(self, connection: Connection) -> None:
        """The broker has accepted the connection."""

    def poll(self, connection: Connection) -> None:
        """Called several times a second while the connection lasts."""

    def disconnected(self, connection: Connection) -> None:
        """The connection has ended."""
