"""Messages that the broker sends us: bounded in size and number, and handled by a thread of their own.

They are not trusted: a message that is too long, above the rate, or one too many in the queue is dropped and counted.
The link never waits for a handler.
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
from edgemeta.daemon.mqtt.limits import BrokerLimits
from edgemeta.daemon.runtime.heartbeat import Heartbeat
from edgemeta.daemon.runtime.threads import guarded_thread

log = logging.getLogger(__name__)

LONGEST = 65_536
"""Longest payload that is handled, in bytes."""

WAITING = 32
"""Greatest number of messages that wait for their handlers."""

HANDLED_WITHIN = 10.0
"""Seconds that a handler may take for one message; then the inbox counts as hung."""


@dataclass(frozen=True)
class Incoming:
    """One message from the broker.

    retained: whether the broker had retained it before we subscribed. response_topic, correlation: topic and
    correlation data for the answer (MQTT 5).
    """

    topic: str
    payload: bytes
    retained: bool = False
    response_topic: str | None = None
    correlation: bytes | None = None


Handler: TypeAlias = Callable[[Incoming], None]
"""Called for one message at a time, in the inbox's thread; longer work belongs to another thread."""


@dataclass(frozen=True)
class Limit:
    """How many messages per second are handled, and as many at once.

    refuse: called like a handler, with the reason, for some of the messages above the rate.
    """

    rate: int
    refuse: Callable[[Incoming, str], None]


class Subscribing(Protocol):
    """The subscriptions of one connection, as far as they are needed here."""

    def subscribe(self, topic_filters: Sequence[str], receive: Callable[[Incoming], None]) -> None:
        """Subscribe, and have `receive` called for each message."""

    def unsubscribe_flooded(self, topic: str) -> None:
        """End the subscription of a flooded topic."""

    def take_skipped(self) -> Mapping[str, int]:
        """Return the number of messages on flooded topics that were skipped since the last call, by topic."""


class _Subscription(NamedTuple):
    control: FloodControl
    handler: Handler
    limit: Limit | None


class SubscriptionQueue:
    """Gives incoming messages to the handlers of their topics, in order. Follows each connection of the link."""

    def __init__(self, on_fatal: Callable[[BaseException], None]) -> None:
        self._subscriptions: list[_Subscription] = []
        self._waiting: deque[tuple[str, Callable[[], None]]] = deque()
        self._changed = threading.Condition()
        self._stopping = False
        self.is_flooding = False
        """Whether a topic is flooded, or was a moment ago: `poll` is then to be called after each message."""
        self._thread = guarded_thread("inbox", self._run, on_fatal)
        self.heartbeat = Heartbeat("inbox")

    def subscribe(self, topic_filter: str, handler: Handler, limit: Limit | None = None) -> None:
        """Have `handler` called for messages on topics that match the filter. Only before the start."""
        control = FloodControl(topic_filter, None if limit is None else limit.rate)
        self._subscriptions.append(_Subscription(control, handler, limit))

    def start(self) -> None:
        """Start the thread that calls the handlers."""
        self._thread.start()

    def stop(self, timeout: float) -> None:
        """Stop; a running handler has `timeout` seconds to finish. Waiting messages are discarded."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        self._thread.join(timeout)

    def connected(self, subscriber: Subscribing, _limits: BrokerLimits) -> None:
        """Subscribe, on a new connection, to all topics that are not flooded."""
        for control in self._controls:
            control.subscribed = False
        self._adjust(subscriber)

    def poll(self, subscriber: Subscribing) -> None:
        """Unsubscribe from topics that are flooded, and subscribe again after their pause."""
        if self.is_flooding:
            skipped = subscriber.take_skipped()
            for control in self._controls:
                control.dropped["flood"] += skipped.get(control.topic_filter, 0)
            self._adjust(subscriber)
            self.is_flooding = any(control.is_flooded for control in self._controls)

    def disconnected(self, subscriber: Subscribing) -> None:
        """The connection has ended: its subscriptions have ended with it."""

    def _adjust(self, subscriber: Subscribing) -> None:
        now_ns = time.monotonic_ns()
        changed = [control for control in self._controls if control.is_wanted(now_ns) != control.subscribed]
        for control in changed:
            control.subscribed = not control.subscribed
        if wanted := [control.topic_filter for control in changed if control.subscribed]:
            subscriber.subscribe(wanted, self.put)
        for control in changed:
            if not control.subscribed:
                subscriber.unsubscribe_flooded(control.topic_filter)

    @property
    def _controls(self) -> list[FloodControl]:
        return [subscription.control for subscription in self._subscriptions]

    def put(self, message: Incoming) -> None:
        """Queue a message, without blocking; one that is too long, or one too many, is dropped."""
        now_ns = time.monotonic_ns()
        for control, handler, limit in self._subscriptions:
            if control.topic_filter != message.topic and not topic_matches_sub(control.topic_filter, message.topic):
                continue
            verdict = control.judge(now_ns)
            self.is_flooding = self.is_flooding or control.is_flooded
            if len(message.payload) > LONGEST:
                self._drop(control, "too_long", message)
            elif verdict is Verdict.HANDLE:
                self._enqueue(control, message, partial(handler, message))
            elif verdict is Verdict.REFUSE and limit is not None:
                self._enqueue(control, message, partial(limit.refuse, message, control.reason))

    def _enqueue(self, control: FloodControl, message: Incoming, work: Callable[[], None]) -> None:
        with self._changed:
            if len(self._waiting) < WAITING:
                self._waiting.append((message.topic, work))
                self._changed.notify_all()
                return
        self._drop(control, "waiting", message)

    def _drop(self, control: FloodControl, reason: str, message: Incoming) -> None:
        control.dropped[reason] += 1
        if control.dropped[reason] == 1:
            why = f"longer than {LONGEST} bytes" if reason == "too_long" else f"{WAITING} are waiting"
            log.warning("message on %s dropped: %s; further drops are only counted", ascii(message.topic), why)

    @property
    def dropped(self) -> dict[str, int]:
        """Messages dropped so far, by reason."""
        counts = sum((control.dropped for control in self._controls), Counter[str]())
        return {reason: counts[reason] for reason in REASONS}

    @property
    def problem(self) -> str | None:
        """Description of the flooded topics; None where none is flooded."""
        topics = [control.topic_filter for control in self._controls if control.is_flooded]
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
