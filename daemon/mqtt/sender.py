"""Chooses which message is sent next on a connection, and forgets those that the broker has answered."""

import threading
import time
from collections import deque
from typing import Protocol

from edgemeta.daemon.mqtt.answers import Answer, Outcome
from edgemeta.daemon.mqtt.connection import Connection
from edgemeta.daemon.mqtt.outbox.delivery import Delivery, OutgoingMessage
from edgemeta.daemon.mqtt.outbox.queue import Outbox
from edgemeta.daemon.mqtt.picture_queue import PictureQueue
from edgemeta.daemon.mqtt.refusals import Refusals
from edgemeta.daemon.mqtt.suspects import Suspects, key_of
from edgemeta.daemon.runtime.rate_limiter import RateLimiter

IDLE = 60.0
"""Seconds until the next look where only a wake-up or an acknowledgement can bring more to send."""

REPLAY_PAUSE = 0.02
"""Seconds to wait where the rate of replayed messages is reached."""

LEAST_RATE = 10
"""Replayed messages per second at least, where the broker closes connections that replay faster."""

LEFT_OUT = Answer(Outcome.POSTPONED, "left out, as the connection ended after one")
CONDEMNED = Answer(Outcome.REFUSED, "the connection ended each time after one was sent")


class DirectQueue:
    """What is to be sent on the present connection, before anything from the outbox. Any thread may put.

    These are answers, stats and retained messages, which are sent again at every connect, as a broker may restart
    empty; only the newest of each topic. A retained message that is kept in the outbox comes from there on the present
    connection, and from here on the next ones.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._retained: dict[str, OutgoingMessage] = {}
        self._unsent: dict[str | OutgoingMessage, OutgoingMessage] = {}
        self._in_flight: set[Delivery] = set()

    def put(self, message: OutgoingMessage, connected: bool) -> None:
        """Take a message. Without a connection only a retained one is of use."""
        if message.kept and not message.retain:
            return
        with self._lock:
            if message.retain:
                self._retained[message.topic] = message
            if not message.kept and (message.retain or connected):
                key = message.topic if message.retain else message
                self._unsent.pop(key, None)
                self._unsent[key] = message

    def restart(self) -> None:
        """Begin a new connection: all retained messages are to be sent, and nothing else."""
        with self._lock:
            self._unsent = dict(self._retained.items())
            self._in_flight.clear()

    @property
    def has_messages(self) -> bool:
        """Whether there may be a message to send. Read often, so without the lock."""
        return bool(self._unsent)

    @property
    def is_empty(self) -> bool:
        """Whether everything was sent and answered."""
        with self._lock:
            return not self._unsent and not self._in_flight

    def next(self) -> Delivery | None:
        """Return the oldest message to send, in flight from now on; None if there is none."""
        with self._lock:
            key = next(iter(self._unsent), None)
            if key is None:
                return None
            delivery = Delivery(self._unsent.pop(key))
            self._in_flight.add(delivery)
            return delivery

    def hold(self, delivery: Delivery) -> None:
        """The broker has refused a message for now: a retained one waits for `retry`, another is forgotten."""
        with self._lock:
            self._in_flight.discard(delivery)

    def retry(self, topic: str) -> None:
        """Send the newest retained message of a topic again, if there is one."""
        with self._lock:
            if topic in self._retained:
                self._unsent[topic] = self._retained[topic]

    def settle(self, delivery: Delivery) -> None:
        """Forget a message that the broker has answered; a topic that was cleared is not retained any more."""
        if delivery not in self._in_flight:
            return
        message = delivery.message
        with self._lock:
            self._in_flight.discard(delivery)
            if not message.payload and self._retained.get(message.topic) is message:
                del self._retained[message.topic]


class DeliveryListener(Protocol):
    """Is informed about messages, in the link's thread."""

    def acknowledged(self, delivery: Delivery) -> None:
        """The broker has acknowledged a message."""

    def refused(self, delivery: Delivery) -> None:
        """The broker has refused a message for good."""


class Sender:
    """Direct messages go first, then live ones, then pictures; beside them replayed ones at their rate.

    Any thread may put; the link's thread calls the rest. acknowledged, refused: messages so far, of all kinds.
    """

    def __init__(
        self, outbox: Outbox, replay_rate: int, listener: DeliveryListener, refusals: Refusals, suspects: Suspects
    ) -> None:
        self._direct = DirectQueue()
        self._pictures = PictureQueue()
        self._outbox = outbox
        self._rate = self._slower_rate = replay_rate
        self._replay_rate = RateLimiter(replay_rate)
        self._listener = listener
        self._refusals = refusals
        self._suspects = suspects
        self._again: deque[Delivery] = deque()  # in flight for the queues that they came from
        self._kept_first = False
        self.acknowledged = 0
        self.refused = 0

    def put(self, message: OutgoingMessage, connected: bool) -> None:
        """Take a message; one that is neither kept nor retained is dropped where there is no connection."""
        if message.picture:
            if connected:
                self._pictures.put(message)
            return
        self._direct.put(message, connected)
        if message.kept:
            self._outbox.offer(message)

    def connected(self) -> None:
        """A connection begins: retained messages are sent again, and what waits in the outbox is replayed."""
        self._direct.restart()
        self._pictures.clear()
        self._outbox.begin()

    def disconnected(self) -> None:
        """The connection ended: what was not acknowledged waits for the next one."""
        self._again.clear()
        self._refusals.disconnected()
        self._outbox.end()

    def adjust_replay(self, was_too_fast: bool) -> None:
        """Halve the rate of replayed messages for the next connection, or return to the configured one."""
        self._slower_rate = max(LEAST_RATE, self._slower_rate // 2) if was_too_fast else self._rate
        self._replay_rate = RateLimiter(min(self._rate, self._slower_rate))

    @property
    def is_quiet(self) -> bool:
        """Whether everything but replayed messages and pictures is sent and answered."""
        return self._direct.is_empty and self._outbox.live == 0

    def send(self, connection: Connection, replay: bool) -> float:
        """Send while the window has room; `replay` says whether replayed messages are sent, too.

        Returns the seconds after which there may be more to send without a wake-up.
        """
        if not self._direct.has_messages and not connection.subscriber.send_next():
            return IDLE
        while connection.has_room and (delivery := self._next()) is not None:
            if not self._publish(connection, delivery):
                return IDLE
        while replay and self._outbox.has_replayed and connection.has_room_for_replayed:
            now = time.monotonic_ns()
            if self._replay_rate.wait_ns(now):
                return REPLAY_PAUSE
            delivery = self._outbox.next_replayed()
            if delivery is None:
                break
            self._replay_rate.take(now)
            if self._admits(delivery) and not self._publish(connection, delivery):
                return IDLE
        return IDLE

    def _next(self) -> Delivery | None:
        """Return the next message that is not replayed; None if there is none."""
        while (delivery := self._take()) is not None:
            if self._admits(delivery):
                return delivery
        return None

    def _take(self) -> Delivery | None:
        """Take the next message, a picture last.

        On a connection where each is tried alone, every other one is from the outbox.
        """
        if self._again:
            return self._again.popleft()
        if not (self._direct.has_messages or self._outbox.has_live):
            return self._pictures.next() if self._pictures.has_messages and not self._outbox.line_is_slow else None
        self._kept_first = self._suspects.careful and not self._kept_first
        if self._kept_first:
            return self._outbox.next_live() or self._direct.next()
        return self._direct.next() or self._outbox.next_live()

    def _admits(self, delivery: Delivery) -> bool:
        """Whether a message is sent: not if the broker closed the connection after it, or after others like it."""
        message = delivery.message
        key = key_of(message)
        if self._suspects.condemns(key, message):
            self.settle(delivery, CONDEMNED)
        elif (until := self._suspects.left_out_until(key)) is not None:
            self._postpone(delivery, LEFT_OUT, until)
        else:
            return True
        return False

    def _publish(self, connection: Connection, delivery: Delivery) -> bool:
        """Send a message; False if it is tried alone and others are not answered yet: then it is the next one."""
        if not connection.may_send(delivery.message):
            self._again.appendleft(delivery)
            return False
        connection.publish(delivery)
        return True

    def poll(self, connection: Connection) -> None:
        """Send one message of each topic whose messages were refused for now, when its pause is over."""
        now = time.monotonic()
        self._refusals.poll(now)
        for topic in self._refusals.due(now):
            if (delivery := self._outbox.retry(topic)) is not None:
                self._again.append(delivery)
            else:
                self._direct.retry(topic)
        connection.subscriber.send_due()
        for topic_filter, answer in connection.subscriber.take_answers():
            self._refusals.subscribed(topic_filter, answer)

    def settle(self, delivery: Delivery, answer: Answer) -> None:
        """Count an answered message, then forget it: whoever waits until nothing is left finds it counted.

        One that was refused for now waits: it is not counted.
        """
        topic = delivery.message.topic
        if answer.outcome is Outcome.ACCEPTED:
            self.acknowledged += 1
            self._listener.acknowledged(delivery)
            self._refusals.accepted(topic)
        elif answer.outcome is Outcome.POSTPONED:
            self._postpone(delivery, answer)
            return
        else:
            self._refusals.refused(topic, answer, time.monotonic())
            self.refused += 1
            self._listener.refused(delivery)
        self._outbox.settle(delivery)
        self._direct.settle(delivery)
        self._pictures.settle(delivery)
        if self._refusals.is_held(topic) and self._outbox.release(delivery):
            self._refusals.release(topic)
            if delivery.replayed and delivery.message.retain:
                self._direct.retry(topic)  # what is replayed now is not retained

    def _postpone(self, delivery: Delivery, answer: Answer, until: float | None = None) -> None:
        """Let a message in flight wait, and with it those on its topic; `until`: as long as that."""
        self._refusals.refused(delivery.message.topic, answer, time.monotonic(), until)
        self._outbox.hold(delivery)
        self._direct.hold(delivery)
        self._pictures.settle(delivery)  # there will be another
