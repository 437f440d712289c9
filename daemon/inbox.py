"""What the broker sends us: bounded in size and number, handled by a thread of its own, so that the link never waits.

What comes from a broker is not to be trusted: a message that is too long, or that comes while too many wait, is dropped
and counted. What its content means is its handler's business.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from paho.mqtt.client import topic_matches_sub

from edgemeta.daemon.pulse import Pulse
from edgemeta.daemon.threads import guarded_thread

log = logging.getLogger(__name__)

LONGEST = 65_536
"""Bytes of a payload that is still handed on."""

WAITING = 32
"""Messages that may wait for their handlers."""

HANDLED_WITHIN = 10.0
"""Seconds that handlers may take for one message before the inbox counts as hung."""


@dataclass(frozen=True)
class Incoming:
    """One message from the broker.

    retained: whether the broker had kept it since before we subscribed. response_topic, correlation: where and with
    which mark the sender awaits an answer (MQTT 5).
    """

    topic: str
    payload: bytes
    retained: bool = False
    response_topic: str | None = None
    correlation: bytes | None = None


Handler: TypeAlias = Callable[[Incoming], None]
"""Called for one message, one at a time, in the inbox's thread. It is quick: longer work belongs to another thread."""


class Inbox:
    """Hands incoming messages to the handlers of their topics, in the order in which they came."""

    def __init__(self, crashed: Callable[[BaseException], None]) -> None:
        self._handlers: list[tuple[str, Handler]] = []
        self._waiting: deque[Incoming] = deque()
        self._changed = threading.Condition()
        self._stopping = False
        self._thread = guarded_thread("inbox", self._run, crashed)
        self.pulse = Pulse("inbox")
        self.dropped = 0

    def subscribe(self, topic_filter: str, handler: Handler) -> None:
        """Have `handler` called for messages on topics that match the filter. Only before the start."""
        self._handlers.append((topic_filter, handler))

    @property
    def filters(self) -> list[str]:
        """The topic filters that have a handler, each once."""
        return list(dict.fromkeys(topic_filter for topic_filter, _ in self._handlers))

    def start(self) -> None:
        """Begin to hand on what comes."""
        self._thread.start()

    def stop(self, timeout: float) -> None:
        """End; a handler at work has `timeout` seconds to finish. What waits is left."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        self._thread.join(timeout)

    def offer(self, message: Incoming) -> None:
        """Take a message in, never waiting; one that is too long, and one too many, is dropped."""
        with self._changed:
            if len(message.payload) <= LONGEST and len(self._waiting) < WAITING:
                self._waiting.append(message)
                self._changed.notify_all()
                return
        self.dropped += 1
        if self.dropped == 1:
            why = "too long" if len(message.payload) > LONGEST else f"{WAITING} wait"
            log.warning("a message on %s was dropped: %s; further ones are only counted", ascii(message.topic), why)

    def _run(self) -> None:
        while (message := self._take()) is not None:
            self.pulse.promise(f"handling a message on {message.topic}", HANDLED_WITHIN)
            for topic_filter, handler in self._handlers:
                if topic_matches_sub(topic_filter, message.topic):
                    handler(message)
            self.pulse.rest()

    def _take(self) -> Incoming | None:
        """Wait for the next message; None to stop."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._stopping)
            return None if self._stopping else self._waiting.popleft()
