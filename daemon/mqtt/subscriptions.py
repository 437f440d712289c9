"""What the broker sends us: bounded in size and number, handled by a thread of its own, so that the link never waits.

What comes from a broker is not to be trusted: a message that is too long, too soon after others, or one too many that
wait, is dropped and counted. What its content means is its handler's business.
"""

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Protocol, TypeAlias

from paho.mqtt.client import topic_matches_sub

from edgemeta.daemon.mqtt.flood_control import REASONS, FloodControl, Verdict
from edgemeta.daemon.runtime.heartbeat import Heartbeat
from edgemeta.daemon.runtime.threads import guarded_thread

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


@dataclass(frozen=True)
class Limit:
    """How many messages per second are handled, and as many at once.

    refuse: called as a handler is, with the reason, for some of those that are too many.
    """

    rate: int
    refuse: Callable[[Incoming, str], None]


class Subscriptions(Protocol):
    """What a connection does for the inbox."""

    def subscribe(self, topic_filters: Sequence[str], receive: Callable[[Incoming], None]) -> None:
        """Ask the broker for what is published on these topics from now on."""

    def unsubscribe_flooded(self, topic: str) -> None:
        """Ask the broker for nothing on this topic any more."""

    def passed_over(self) -> Mapping[str, int]:
        """Return how many messages on unsubscribed topics were not handed on, by topic, since the last call."""


class _Subscription(NamedTuple):
    intake: FloodControl
    handler: Handler
    limit: Limit | None


class SubscriptionQueue:
    """Hands incoming messages to the handlers of their topics, in the order in which they came."""

    def __init__(self, on_fatal: Callable[[BaseException], None]) -> None:
        self._subscriptions: list[_Subscription] = []
        self._waiting: deque[tuple[str, Callable[[], None]]] = deque()
        self._changed = threading.Condition()
        self._stopping = False
        self._flooded = False
        self._thread = guarded_thread("inbox", self._run, on_fatal)
        self.heartbeat = Heartbeat("inbox")

    def subscribe(self, topic_filter: str, handler: Handler, limit: Limit | None = None) -> None:
        """Have `handler` called for messages on topics that match the filter. Only before the start."""
        intake = FloodControl(topic_filter, None if limit is None else limit.rate)
        self._subscriptions.append(_Subscription(intake, handler, limit))

    def start(self) -> None:
        """Begin to hand on what comes."""
        self._thread.start()

    def stop(self, timeout: float) -> None:
        """End; a handler at work has `timeout` seconds to finish. What waits is left."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        self._thread.join(timeout)

    def begin(self, connection: Subscriptions) -> None:
        """Subscribe, on a new connection, to all topics that are not flooded."""
        for intake in self._intakes:
            intake.subscribed = False
        self._adjust(connection)

    def tend(self, connection: Subscriptions) -> None:
        """Unsubscribe from topics that are flooded, and subscribe again when their pause is over."""
        if self._flooded:
            passed_over = connection.passed_over()
            for intake in self._intakes:
                intake.dropped["flood"] += passed_over.get(intake.topic_filter, 0)
            self._adjust(connection)
            self._flooded = any(intake.is_flooded for intake in self._intakes)

    def _adjust(self, connection: Subscriptions) -> None:
        now_ns = time.monotonic_ns()
        changed = [intake for intake in self._intakes if intake.is_wanted(now_ns) != intake.subscribed]
        for intake in changed:
            intake.subscribed = not intake.subscribed
        if wanted := [intake.topic_filter for intake in changed if intake.subscribed]:
            connection.subscribe(wanted, self.offer)
        for intake in changed:
            if not intake.subscribed:
                connection.unsubscribe_flooded(intake.topic_filter)

    @property
    def _intakes(self) -> list[FloodControl]:
        return [subscription.intake for subscription in self._subscriptions]

    def offer(self, message: Incoming) -> None:
        """Take a message in, never waiting; one that is too long, and one too many, is dropped."""
        now_ns = time.monotonic_ns()
        for intake, handler, limit in self._subscriptions:
            if intake.topic_filter != message.topic and not topic_matches_sub(intake.topic_filter, message.topic):
                continue
            verdict = intake.judge(now_ns)
            self._flooded = self._flooded or intake.is_flooded
            if len(message.payload) > LONGEST:
                self._drop(intake, "too_long", message)
            elif verdict is Verdict.HANDLE:
                self._put(intake, message, partial(handler, message))
            elif verdict is Verdict.REFUSE and limit is not None:
                self._put(intake, message, partial(limit.refuse, message, intake.reason))

    def _put(self, intake: FloodControl, message: Incoming, work: Callable[[], None]) -> None:
        with self._changed:
            if len(self._waiting) < WAITING:
                self._waiting.append((message.topic, work))
                self._changed.notify_all()
                return
        self._drop(intake, "waiting", message)

    def _drop(self, intake: FloodControl, reason: str, message: Incoming) -> None:
        intake.dropped[reason] += 1
        if intake.dropped[reason] == 1:
            why = "too long" if reason == "too_long" else f"{WAITING} wait"
            log.warning("a message on %s was dropped: %s; further ones are only counted", ascii(message.topic), why)

    @property
    def dropped(self) -> dict[str, int]:
        """Messages dropped so far, by reason."""
        counts = sum((intake.dropped for intake in self._intakes), Counter[str]())
        return {reason: counts[reason] for reason in REASONS}

    @property
    def problem(self) -> str | None:
        """Description of the flooded topics; None where none is flooded."""
        topics = [intake.topic_filter for intake in self._intakes if intake.is_flooded]
        return f"flood of messages on {', '.join(topics)}" if topics else None

    def _run(self) -> None:
        while (taken := self._take()) is not None:
            topic, work = taken
            self.heartbeat.expect_within(f"handling a message on {topic}", HANDLED_WITHIN)
            work()
            self.heartbeat.clear()

    def _take(self) -> tuple[str, Callable[[], None]] | None:
        """Wait for the next message; None to stop."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._stopping)
            return None if self._stopping else self._waiting.popleft()
