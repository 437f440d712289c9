"""Commands that speak with the broker: its address, a connection as the service makes it, and what arrives there."""

import secrets
import time
from collections.abc import Callable, Sequence

from pydantic import ValidationError

from edgemeta.daemon.config.broker import MqttConfig
from edgemeta.daemon.mqtt.connection import Connection
from edgemeta.daemon.mqtt.limits import BrokerLimits
from edgemeta.daemon.mqtt.outbox.delivery import OutgoingMessage
from edgemeta.daemon.mqtt.subscriptions import Incoming
from edgemeta.daemon.mqtt.suspects import Suspects
from edgemeta.daemon.mqtt.wakeup import Wakeup
from edgemeta.model.errors import EdgemetaError

LOOK_EVERY = 0.2
"""Seconds, at most, between two looks at the clock."""

READS_ONLY = BrokerLimits(qos=0, retain=False)


def broker_of(address: str) -> MqttConfig:
    """The broker at HOST or HOST:PORT, without encryption and login. Raises EdgemetaError."""
    host, _, port = address.partition(":") if address.count(":") <= 1 else (address.strip("[]"), "", "")
    try:
        return MqttConfig.model_validate({"host": host, **({"port": int(port)} if port else {})})
    except (ValidationError, ValueError):
        raise EdgemetaError(f"--broker {address}: expected HOST or HOST:PORT, such as 192.168.1.10:1883") from None


def connection_of(config: MqttConfig, command: str, limits: BrokerLimits = READS_ONLY) -> Connection:
    """A connection that is not open yet, under another client id than the service's, which so keeps its own.

    limits: what may be published.
    """
    client = f"edgemeta-{command}-{secrets.token_hex(4)}"
    will = OutgoingMessage(f"{config.base_topic}/{client}/availability", b"offline", 0, retain=False)
    return Connection(config, client, will, Wakeup(), limits, Suspects(f"{config.host}:{config.port}"))


def listen(
    config: MqttConfig,
    command: str,
    filters: Sequence[str],
    receive: Callable[[Incoming], None],
    seconds: float,
    optional: Sequence[str] = (),
) -> None:
    """Give what the broker sends on these topics to `receive`, for some seconds from its acceptance on.

    optional: topics that the broker may refuse. Raises EdgemetaError: LinkError where the connection fails or breaks,
    SecretError, and for other topics that the broker does not let be read.
    """
    connection = connection_of(config, command)
    connection.open()
    polite = False
    try:
        subscriber = connection.subscriber
        subscriber.subscribe([*filters, *optional], receive)
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            connection.process(connection.wait(min(left, LOOK_EVERY)))
            if refused := subscriber.refused.difference(optional):
                raise EdgemetaError(f"the broker does not let {', '.join(sorted(refused))} be read")
        polite = True
    finally:
        connection.close(politely=polite)
