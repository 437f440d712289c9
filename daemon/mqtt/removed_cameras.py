"""Clears the retained messages of cameras that this device's config no longer has.

A retained message outlives the service that sent it, so only the broker knows earlier cameras. After each connect the
service subscribes to its own retained topics and reads their messages. When none has arrived for a while, it ends the
subscription and clears the topics of removed cameras with an empty retained message. A message that is not recognized
as one of this device stays.
"""

import logging
import time
from collections.abc import Callable, Collection
from typing import Protocol

from pydantic import BaseModel, Field, ValidationError

from edgemeta.daemon.messages.channels import CHANNELS, Topics
from edgemeta.daemon.mqtt.limits import BrokerLimits
from edgemeta.daemon.mqtt.outbox.delivery import OutgoingMessage
from edgemeta.daemon.mqtt.subscriptions import LONGEST, Incoming

log = logging.getLogger(__name__)

RETAINED = tuple(
    channel for channel in CHANNELS if channel.retain and not channel.by_option and "{camera}" in channel.address
)
"""The retained channels of each camera."""

BY_OPTION = tuple(channel for channel in CHANNELS if channel.by_option and "{label}" not in channel.address)
"""Channels that may be retained, too: they are not read, but cleared with a camera's status."""

QUIET = 5.0
"""Seconds without a retained message after which all have arrived: brokers do not mark the last one."""

MOST = 4096
"""Most topics that are cleared after one connect; others are cleared after the next."""


class Head(BaseModel):
    """Fields that every retained message of a camera has, in all versions of the format."""

    schema_version: int = Field(ge=1)
    device: str
    boot: str = Field(pattern="^[0-9a-f]{32}$")
    camera: str


class Reading(Protocol):
    """The subscriptions of one connection, as far as they are needed here."""

    @property
    def unanswered(self) -> Collection[str]:
        """Topic filters whose subscription the broker has not answered yet."""

    @property
    def refused(self) -> Collection[str]:
        """Topic filters whose subscription the broker has refused."""

    def read_retained(self, topic_filter: str, receive: Callable[[Incoming], None]) -> None:
        """Subscribe, and have `receive` called for each message."""

    def unsubscribe(self, topic_filter: str) -> None:
        """End a subscription."""


class Link(Protocol):
    """The link to the broker."""

    def send(self, message: OutgoingMessage) -> None:
        """Send a message."""


class RemovedCameras:
    """Follows the connections of one link, in its thread. `cameras` are those of the config."""

    def __init__(self, link: Link, topics: Topics, cameras: Collection[str]) -> None:
        self._link = link
        self._topics = topics
        self._cameras = frozenset(cameras)
        self._filters = [topics.of(channel, "+") for channel in RETAINED]
        self._found: set[str] = set()
        self._over_at: float | None = None

    def connected(self, subscriber: Reading, limits: BrokerLimits) -> None:
        """A connection was accepted: read the retained messages."""
        self._found.clear()
        if not (limits.retain and limits.wildcards):
            return
        self._over_at = time.monotonic() + QUIET
        for topic_filter in self._filters:
            subscriber.read_retained(topic_filter, self.take)

    def take(self, message: Incoming) -> None:
        """Check a message on one of the topics; one that is not retained was just sent, by this service or another."""
        if not message.retained or self._over_at is None:
            return
        self._over_at = time.monotonic() + QUIET
        if self._is_of_removed(message) and len(self._found) < MOST:
            self._found.add(message.topic)
            if message.topic.endswith("/status"):
                camera = message.topic.split("/")[-2]
                self._found.update(self._topics.of(channel, camera) for channel in BY_OPTION)

    def poll(self, subscriber: Reading) -> None:
        """Once all messages have arrived, clear the topics of removed cameras."""
        if self._over_at is None or time.monotonic() < self._over_at:
            return
        if any(topic_filter in subscriber.unanswered for topic_filter in self._filters):
            self._over_at = time.monotonic() + QUIET
            return
        for topic_filter in self._filters:
            subscriber.unsubscribe(topic_filter)
        self._end(subscriber)
        for topic in sorted(self._found):
            log.info("%s: cleared, this camera is no longer in the config", topic, extra={"topic": topic})
            self._link.send(OutgoingMessage(topic, b"", 1, retain=True))

    def disconnected(self, subscriber: Reading) -> None:
        """The connection ended, before or after all messages had arrived."""
        if self._over_at is not None:
            self._end(subscriber)

    def _end(self, subscriber: Reading) -> None:
        self._over_at = None
        self._filters = [topic_filter for topic_filter in self._filters if topic_filter not in subscriber.refused]

    def _is_of_removed(self, message: Incoming) -> bool:
        if len(message.payload) > LONGEST:
            return False
        try:
            head = Head.model_validate_json(message.payload)
        except ValidationError:
            return False
        own = {self._topics.of(channel, head.camera) for channel in RETAINED}
        return head.device == self._topics.device and message.topic in own and head.camera not in self._cameras
