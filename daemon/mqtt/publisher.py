"""Encodes messages and hands them to the link: number, topic, JSON, QoS and retention, as the channel table says."""

import itertools

from edgemeta.daemon.messages.channels import Channel, Topics
from edgemeta.daemon.messages.encoding import encode
from edgemeta.daemon.messages.records import Fields, Message
from edgemeta.daemon.mqtt.link import MqttLink
from edgemeta.daemon.mqtt.outbox.delivery import OutgoingMessage


class Publisher:
    """Encodes the messages of one device and hands them to its link. Any thread may call."""

    def __init__(self, link: MqttLink, topics: Topics, qos: int) -> None:
        self._link = link
        self._topics = topics
        self._qos = qos
        self._ids = itertools.count(1)
        self._known_topics: dict[tuple[str, str, str], str] = {}

    @property
    def connected(self) -> bool:
        """Whether the link has a connection that the broker accepted."""
        return self._link.connected

    def encode(
        self,
        channel: Channel,
        message: Message | Fields,
        camera: str = "",
        captured_ns: int = 0,
        verb: str = "",
    ) -> OutgoingMessage:
        """Number and encode a message, and address it.

        captured_ns: when its frame was captured, 0 for a message without one. verb: the command that is answered.
        """
        payload = encode(message, next(self._ids))
        topic = self._topic(channel, camera, verb)
        return OutgoingMessage(
            topic, payload, self._qos, channel.retain, channel.kept, captured_ns, gives_way=channel.gives_way
        )

    def picture(self, channel: Channel, jpeg: bytes, camera: str, retain: bool) -> OutgoingMessage:
        """Address a picture."""
        return OutgoingMessage(self._topic(channel, camera, ""), jpeg, self._qos, retain, picture=True)

    def number(self, channel: Channel, number: int, camera: str, label: str, zone: str) -> OutgoingMessage:
        """Address a plain number about a label, in a zone or, with an empty name, in the whole picture."""
        topic = self._topics.of(channel, camera, zone=zone, label=label)
        return OutgoingMessage(topic, str(number).encode(), self._qos, channel.retain)

    def send(self, outgoing: OutgoingMessage) -> None:
        """Hand a message to the link."""
        self._link.send(outgoing)

    def _topic(self, channel: Channel, camera: str, verb: str) -> str:
        key = channel.name, camera, verb
        topic = self._known_topics.get(key)
        if topic is None:
            topic = self._known_topics[key] = self._topics.of(channel, camera, verb)
        return topic
