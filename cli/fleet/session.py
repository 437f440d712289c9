"""A connection to the broker that lasts as long as a command: made again after each loss, with all that it retains."""

import time
from collections.abc import Callable, Sequence

from edgemeta.cli.broker import connection_of
from edgemeta.cli.options import remark
from edgemeta.daemon.config.broker import MqttConfig
from edgemeta.daemon.mqtt.answers import Outcome
from edgemeta.daemon.mqtt.connection import Connection
from edgemeta.daemon.mqtt.limits import BrokerLimits
from edgemeta.daemon.mqtt.outbox.delivery import Delivery, OutgoingMessage
from edgemeta.daemon.mqtt.state import LinkError
from edgemeta.daemon.mqtt.subscriptions import Incoming
from edgemeta.model.errors import EdgemetaError

AGAIN_AFTER = 1.0


class Session:
    """Subscribes and retains messages. Raises LinkError and SecretError where the first connection fails."""

    def __init__(self, config: MqttConfig, filters: Sequence[str], receive: Callable[[Incoming], None]) -> None:
        self._config, self._filters, self._receive = config, filters, receive
        self._retained: dict[str, bytes] = {}
        self._unsent: list[str] = []
        self._connection: Connection | None = self._connect()
        self._again_at = 0.0

    @property
    def is_quiet(self) -> bool:
        """Whether the broker has all that is to be retained."""
        connection = self._connection
        return connection is not None and not self._unsent and connection.in_flight == 0

    def retain(self, topic: str, payload: bytes) -> None:
        """Have the broker retain a message, also after it has lost it; an empty one clears the topic."""
        if self._retained.get(topic) != payload:
            self._retained[topic] = payload
            self._unsent.append(topic)

    def run(self, seconds: float) -> None:
        """Send and receive for a while. Raises EdgemetaError for topics that the broker does not allow."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            try:
                if self._connection is None:
                    time.sleep(max(0.0, min(left, self._again_at - time.monotonic())))
                    if time.monotonic() >= self._again_at:
                        self._connection = self._connect()
                else:
                    self._exchange(self._connection, left)
            except LinkError as error:
                if self._connection is not None:
                    remark(f"{error}; trying again")
                    self._connection.close(politely=False)
                self._connection, self._again_at = None, time.monotonic() + AGAIN_AFTER

    def finish(self) -> None:
        """Run until the broker has all that is to be retained. Raises as `run`."""
        while not self.is_quiet:
            self.run(0.1)

    def close(self) -> None:
        """End the connection."""
        if self._connection is not None:
            self._connection.close(politely=True)

    def _connect(self) -> Connection:
        connection = connection_of(self._config, "fleet", BrokerLimits(qos=1))
        try:
            connection.open()
        except BaseException:
            connection.close(politely=False)
            raise
        if not connection.limits.retain:
            connection.close(politely=True)
            raise EdgemetaError("the broker keeps no retained messages, which orders of a rollout are")
        connection.subscriber.subscribe(self._filters, self._receive)
        self._unsent = list(self._retained)
        return connection

    def _exchange(self, connection: Connection, seconds: float) -> None:
        while self._unsent and connection.has_room:
            topic = self._unsent.pop(0)
            message = OutgoingMessage(topic, self._retained[topic], 1, retain=True)
            if not connection.may_send(message):
                self._unsent.insert(0, topic)
                break
            connection.publish(Delivery(message))
        for delivery, answer in connection.process(connection.wait(min(seconds, 0.1))):
            if answer.outcome is Outcome.REFUSED:
                raise EdgemetaError(f"the broker refuses {delivery.message.topic}: {answer.reason}")
        if connection.subscriber.refused:
            refused = ", ".join(sorted(connection.subscriber.refused))
            raise EdgemetaError(f"the broker does not let {refused} be read")
