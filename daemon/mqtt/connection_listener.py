"""Who goes along with each connection to the broker, from its acceptance to its end."""

from typing import Protocol

from edgemeta.daemon.mqtt.connection import Connection


class ConnectionListener(Protocol):
    """Called in the link's thread, so it must be quick."""

    def begun(self, connection: Connection) -> None:
        """The broker has accepted it."""

    def step(self, connection: Connection) -> None:
        """It goes on; called at least once a second."""

    def ended(self, connection: Connection) -> None:
        """It has ended."""
