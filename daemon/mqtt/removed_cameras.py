"""Clears retained messages that this device's config no longer has: of cameras, and of options switched off.

A retained message outlives the service that sent it, so only the broker knows earlier ones. After each connect, and
where the config has changed, the service subscribes to its own retained topics and reads their messages. When none has
arrived for a while, it ends the subscription and clears what it would not send any more with an empty retained message.
A message that is not recognized as one of this device stays.
"""

import logging
import time
from collections.abc import Callable, Collection
from typing import Protocol

from paho.mqtt.client import topic_matches_sub
from pydantic import BaseModel, Field, ValidationError

from edgemeta.daemon.messages.channels import CHANNELS, CROP, MOTION, SNAPSHOT, Topics
from edgemeta.daemon.mqtt.limits import BrokerLimits
from edgemeta.daemon.mqtt.outbox.delivery import OutgoingMessage
from edgemeta.daemon.mqtt.subscriptions import LONGEST, Incoming

log = logging.getLogger(__name__)

RETAINED = tuple(
    channel for channel in CHANNELS if channel.retain and not channel.by_option and "{camera}" in channel.address
)
"""The retained channels of each camera."""

PICTURES = (SNAPSHOT, CROP)
"""Channels that may be retained, too. They are read only where the config retains none."""

JPEG = b"\xff\xd8"
"""How a picture begins."""

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
    """Follows the connections of one link, in its thread.

    cameras: those of the config. by_option: the topics on which its options retain messages now.
    """

    def __init__(
        self, link: Link, topics: Topics, cameras: Collection[str], by_option: Callable[[], Collection[str]]
    ) -> None:
        self._link = link
        self._topics = topics
        self._cameras = frozenset(cameras)
        self._by_option = by_option
        self._counts = topics.of(MOTION, "+").removesuffix(MOTION.name) + "count/"
        self._filters: list[str] = []
        self._refused: set[str] = set()
        self._found: set[str] = set()
        self._over_at: float | None = None
        self._limits: BrokerLimits | None = None
        self._is_to_read = False

    def read_again(self) -> None:
        """Read what is retained once more, as the config has changed. Any thread may call."""
        self._is_to_read = True

    def connected(self, subscriber: Reading, limits: BrokerLimits) -> None:
        """A connection was accepted: read the retained messages."""
        self._found.clear()
        self._limits, self._is_to_read = limits, False
        if not (limits.retain and limits.wildcards):
            return
        self._over_at = time.monotonic() + QUIET
        self._filters = [each for each in self._wanted() if each not in self._refused]
        for topic_filter in self._filters:
            subscriber.read_retained(topic_filter, self.take)

    def _wanted(self) -> list[str]:
        """Filters of what may be retained, without pictures that the config retains: they may be many bytes."""
        wanted, retained = [self._topics.of(channel, "+") for channel in (*RETAINED, MOTION)], self._by_option()
        for channel in PICTURES:
            own = {self._topics.of(channel, camera) for camera in self._cameras}
            wanted += [self._topics.of(channel, "+")] if own.isdisjoint(retained) else sorted(own.difference(retained))
        return [*wanted, f"{self._counts}#"]

    def take(self, message: Incoming) -> None:
        """Check a message on one of the topics; one that is not retained was just sent, by this service or another."""
        if not message.retained or self._over_at is None:
            return
        self._over_at = time.monotonic() + QUIET
        if self._is_ours(message) and len(self._found) < MOST:
            self._found.add(message.topic)
            if message.topic.endswith("/status"):
                camera = message.topic.split("/")[-2]
                self._found.update(self._topics.of(channel, camera) for channel in PICTURES)

    def poll(self, subscriber: Reading) -> None:
        """Once all messages have arrived, clear the topics that are in use no more."""
        if self._over_at is None and self._is_to_read and self._limits is not None:
            self.connected(subscriber, self._limits)
        if self._over_at is None or time.monotonic() < self._over_at:
            return
        if any(topic_filter in subscriber.unanswered for topic_filter in self._filters):
            self._over_at = time.monotonic() + QUIET
            return
        for topic_filter in self._filters:
            subscriber.unsubscribe(topic_filter)
        self._end(subscriber)
        for topic in sorted(self._found.difference(self._by_option()))[:MOST]:
            log.info("%s: cleared, it is no longer in the config", topic, extra={"topic": topic})
            self._link.send(OutgoingMessage(topic, b"", 1, retain=True))

    def disconnected(self, subscriber: Reading) -> None:
        """The connection ended, before or after all messages had arrived."""
        self._limits = None
        if self._over_at is not None:
            self._end(subscriber)

    def _end(self, subscriber: Reading) -> None:
        self._over_at = None
        self._refused.update(subscriber.refused)

    def _is_ours(self, message: Incoming) -> bool:
        """Whether this device has sent a message that it might not send any more."""
        if topic_matches_sub(f"{self._counts}#", message.topic):
            return message.payload.isdigit()
        if any(topic_matches_sub(self._topics.of(channel, "+"), message.topic) for channel in PICTURES):
            return message.payload.startswith(JPEG)
        if len(message.payload) > LONGEST:
            return False
        try:
            head = Head.model_validate_json(message.payload)
        except ValidationError:
            return False
        if head.device != self._topics.device:
            return False
        own = {self._topics.of(channel, head.camera) for channel in RETAINED}
        is_motion = message.topic == self._topics.of(MOTION, head.camera)
        return is_motion or (message.topic in own and head.camera not in self._cameras)
