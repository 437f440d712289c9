"""Reads a model that the broker retains in parts: a few at a time, again after each connect, until it is whole."""

import threading
import time
from collections.abc import Callable
from typing import Protocol

from edgemeta.daemon.messages.channels import Topics
from edgemeta.daemon.messages.rollouts import CHUNK, WantedModel
from edgemeta.daemon.mqtt.limits import BrokerLimits
from edgemeta.daemon.mqtt.subscriptions import Incoming
from edgemeta.model.errors import EdgemetaError

AT_ONCE = 8
"""Parts that are asked for and have not come: 8 of them take less than 400 KB."""
ASKS_AGAIN = 10.0
"""Seconds after which a part is asked for again: a broker that has none says nothing."""
LOOKS_EVERY = 0.2


class PartsError(EdgemetaError):
    """The broker did not give all parts, with the reason in one sentence."""


class Reading(Protocol):
    """The subscriptions of one connection, as far as they are needed here."""

    def read_retained(self, topic_filter: str, receive: Callable[[Incoming], None]) -> None:
        """Subscribe, and have `receive` called for each message."""

    def unsubscribe(self, topic_filter: str) -> None:
        """End a subscription."""


class ModelParts:
    """Follows the connections of one link, in its thread; `read` is for another one."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self._lock = threading.Lock()
        self._missing: list[str] = []
        self._found: dict[str, bytes] = {}
        self._asked: dict[str, float] = {}

    def read(
        self, model: WantedModel, timeout: float, cancelled: threading.Event, tell: Callable[[int, int], None]
    ) -> bytes:
        """Return the bytes of a model. tell: called with the bytes that are there, and those of the whole.

        Raises PartsError after `timeout` seconds, and when it is cancelled.
        """
        parts = [self._topics.part(model.sha256, part) for part in range(-(-model.size // CHUNK))]
        with self._lock:
            self._missing, self._found = list(parts), {}
        deadline = time.monotonic() + timeout
        try:
            while True:
                with self._lock:
                    here, content = sum(map(len, self._found.values())), dict(self._found)
                tell(min(here, model.size), model.size)
                if len(content) == len(parts):
                    return b"".join(content[each] for each in parts)
                if cancelled.wait(LOOKS_EVERY):
                    raise PartsError("cancelled")
                if time.monotonic() > deadline:
                    raise PartsError(
                        f"the broker gave {len(content)} of {len(parts)} parts of {model.name} within "
                        f"`swap.update_timeout`, {timeout:g} s"
                    )
        finally:
            with self._lock:
                self._missing, self._found = [], {}

    def take(self, message: Incoming) -> None:
        """Keep a part; called in the link's thread."""
        with self._lock:
            if message.topic in self._missing and 0 < len(message.payload) <= CHUNK:
                self._missing.remove(message.topic)
                self._found[message.topic] = message.payload

    def connected(self, _subscriber: Reading, _limits: BrokerLimits) -> None:
        """A connection was accepted; it has no subscriptions."""
        self._asked.clear()

    def poll(self, subscriber: Reading) -> None:
        """End what has come, and ask for what is next."""
        now = time.monotonic()
        with self._lock:
            missing = list(self._missing)
        for topic, asked in list(self._asked.items()):
            if topic not in missing or now - asked > ASKS_AGAIN:
                subscriber.unsubscribe(topic)
                del self._asked[topic]
        for topic in [each for each in missing if each not in self._asked][: AT_ONCE - len(self._asked)]:
            subscriber.read_retained(topic, self.take)
            self._asked[topic] = now

    def disconnected(self, _subscriber: Reading) -> None:
        """The connection ended."""
