"""From message records to the link: topic, JSON, quality of service and retention, as the channel table says."""

from collections.abc import Callable

from edgemeta.daemon.messages import Message
from edgemeta.daemon.mqtt import MqttLink
from edgemeta.daemon.outbox import Outgoing
from edgemeta.daemon.topics import Channel, Topics


class Publisher:
    """Encodes the messages of one device and hands them to its link."""

    def __init__(self, link: MqttLink, topics: Topics, qos: int) -> None:
        self._link = link
        self._topics = topics
        self._qos = qos

    @property
    def connected(self) -> bool:
        """Whether the broker has accepted the link."""
        return self._link.connected

    def encode(
        self, channel: Channel, message: Message, camera: str = "", taken: Callable[[Outgoing], None] | None = None
    ) -> Outgoing:
        """Make the message ready to send; `taken` is called when the broker has taken it."""
        payload = message.model_dump_json().encode()
        qos = self._qos if channel.qos is None else channel.qos
        return Outgoing(self._topics.of(channel, camera), payload, qos, channel.retain, taken)

    def send(self, outgoing: Outgoing) -> bool:
        """Queue it, or keep it as the latest of its topic where it is retained; False where the queue is full."""
        if outgoing.retain:
            self._link.retain(outgoing)
            return True
        return self._link.offer(outgoing)
