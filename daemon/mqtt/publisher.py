"""From message records to the link: number, topic, JSON, QoS and retention, as the channel table says."""

import itertools
from typing import Any

from pydantic_core import to_json

from edgemeta.daemon.messages.channels import Channel, Topics
from edgemeta.daemon.messages.encoding import numbered
from edgemeta.daemon.messages.records import Message
from edgemeta.daemon.mqtt.link import MqttLink
from edgemeta.daemon.mqtt.outbox.delivery import OutgoingMessage


class Publisher:
    """Encodes the messages of one device and hands them to its link. Any thread may call."""

    def __init__(self, link: MqttLink, topics: Topics, qos: int) -> None:
        self._link = link
        self._topics = topics
        self._qos = qos
        self._ids = itertools.count(1)

    @property
    def connected(self) -> bool:
        """Whether the broker has accepted the link."""
        return self._link.connected

    def encode(
        self,
        channel: Channel,
        message: Message | dict[str, Any],
        camera: str = "",
        captured_ns: int = 0,
        verb: str = "",
    ) -> OutgoingMessage:
        """Number a message, a record or its fields in the record's order, and make it ready to send.

        captured_ns: when its frame was captured, if it has one. verb: the command, if it is an answer.
        """
        payload = numbered(to_json(message), next(self._ids))
        qos = self._qos if channel.qos is None else channel.qos
        topic = self._topics.of(channel, camera, verb)
        return OutgoingMessage(topic, payload, qos, channel.retain, channel.kept, captured_ns)

    def send(self, outgoing: OutgoingMessage) -> None:
        """Hand it to the link."""
        self._link.send(outgoing)
