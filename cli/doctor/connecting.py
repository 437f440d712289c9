"""Whether the broker that a config, or an address, names accepts a connection."""

import time

from edgemeta.cli.broker import connection_of
from edgemeta.cli.doctor.report import Broker
from edgemeta.daemon.config.broker import MqttConfig
from edgemeta.model.errors import EdgemetaError


def broker(config: MqttConfig) -> Broker:
    """Connect as the service does."""
    connection = connection_of(config, "doctor")
    begin, reason = time.monotonic(), None
    try:
        connection.open()
    except EdgemetaError as error:  # LinkError, SecretError
        reason = str(error)
    seconds = round(time.monotonic() - begin, 3)
    connection.close(politely=reason is None)
    return Broker(connected=reason is None, seconds=seconds, reason=reason)
