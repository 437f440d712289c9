"""Whether the broker that a config, or an address, names accepts a connection."""

import secrets
import time

from edgemeta.cli.doctor.report import Broker
from edgemeta.daemon.config.broker import MqttConfig
from edgemeta.daemon.mqtt.connection import Connection
from edgemeta.daemon.mqtt.limits import BrokerLimits
from edgemeta.daemon.mqtt.outbox.delivery import OutgoingMessage
from edgemeta.daemon.mqtt.suspects import Suspects
from edgemeta.daemon.mqtt.wakeup import Wakeup
from edgemeta.model.errors import EdgemetaError


def broker(config: MqttConfig) -> Broker:
    """Connect as the service does, under another client id, which the service's connection survives."""
    client = f"edgemeta-doctor-{secrets.token_hex(4)}"
    will = OutgoingMessage(f"{config.base_topic}/{client}/availability", b"offline", 0, retain=False)
    limits = BrokerLimits(qos=0, retain=False)
    connection = Connection(config, client, will, Wakeup(), limits, Suspects(f"{config.host}:{config.port}"))
    begin, reason = time.monotonic(), None
    try:
        connection.open()
    except EdgemetaError as error:  # LinkError, SecretError
        reason = str(error)
    seconds = round(time.monotonic() - begin, 3)
    connection.close(politely=reason is None)
    return Broker(connected=reason is None, seconds=seconds, reason=reason)
