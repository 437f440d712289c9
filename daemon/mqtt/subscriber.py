"""Subscriptions of one connection: sent, tried alone, tried again later, and what the broker has answered."""

import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Sequence

import paho.mqtt.client as paho
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from edgemeta.daemon.mqtt.answers import Answer, Outcome, answer_of
from edgemeta.daemon.mqtt.in_flight import InFlight
from edgemeta.daemon.mqtt.paho_client import BufferedClient
from edgemeta.daemon.mqtt.subscriptions import Incoming
from edgemeta.daemon.mqtt.suspects import subscription_sent
from edgemeta.daemon.mqtt.trials import Trials

log = logging.getLogger(__name__)

SUBSCRIBE_AGAIN_AFTER = 10.0
"""Seconds until a subscription that was refused for now is tried again."""

REFUSED_BY_3_1_1 = Answer(Outcome.REFUSED, "the broker gives no reason")


class Subscriber:
    """Subscribes with one client, and receives what the broker sends. Only the connection's thread calls it.

    broker: its address, for the log. refused: topic filters whose subscription the broker has refused.
    """

    def __init__(self, client: BufferedClient, broker: str, trials: Trials) -> None:
        self._client = client
        self._broker = broker
        self._trials = trials
        self._sent = InFlight[tuple[str, int]]()
        self._next: deque[tuple[str, int]] = deque()
        self._later: list[tuple[float, str, int]] = []
        self._answers: list[tuple[str, Answer]] = []
        self.refused: set[str] = set()
        client.on_subscribe = self._on_subscribe

    def subscribe(self, topic_filters: Sequence[str], receive: Callable[[Incoming], None]) -> None:
        """Subscribe to these topics; `receive` is called for each message, while the connection reads."""
        self._client.on_message = lambda _client, _userdata, message: receive(_incoming(message))
        for topic_filter in topic_filters:
            self._client.unwanted.discard(topic_filter.encode())
            self._subscribe(topic_filter, qos=1)

    def read_retained(self, topic_filter: str, receive: Callable[[Incoming], None]) -> None:
        """Subscribe to topics to read their retained messages; those are given to `receive` only."""
        self._client.message_callback_add(topic_filter, lambda _client, _userdata, message: receive(_incoming(message)))
        self._subscribe(topic_filter, qos=0)  # a burst is not to wait for our acknowledgements

    def unsubscribe(self, topic_filter: str) -> None:
        """End a subscription."""
        if topic_filter not in self._unsent:
            self._client.unsubscribe(topic_filter)
        self._next = deque(each for each in self._next if each[0] != topic_filter)
        self._later = [each for each in self._later if each[1] != topic_filter]

    def unsubscribe_flooded(self, topic: str) -> None:
        """End the subscription of a flooded topic; of its messages that are on their way most are skipped."""
        self.unsubscribe(topic)
        self._client.unwanted.add(topic.encode())

    def take_skipped(self) -> dict[str, int]:
        """Return the number of messages skipped since the last call, by topic."""
        counts, self._client.skipped = self._client.skipped, Counter()
        return {topic.decode(): count for topic, count in counts.items()}

    def send_next(self) -> bool:
        """Send the next of the subscriptions that are tried alone; False where it has to wait for answers."""
        if self._next and self._trials.may_send(subscription_sent(self._next[0][0]).key):
            self._send(*self._next.popleft())
        return not self._next and not self._trials.is_running

    def send_due(self) -> None:
        """Try the subscriptions again that were left out, or refused for now, for a time that is over."""
        now = time.monotonic()
        due = [each for each in self._later if each[0] <= now]
        self._later = [each for each in self._later if each[0] > now]
        for _, topic_filter, qos in due:
            self._subscribe(topic_filter, qos)

    def take_answers(self) -> list[tuple[str, Answer]]:
        """Return the broker's answers to subscriptions of `subscribe` since the last call, by topic filter."""
        answers, self._answers = self._answers, []
        return answers

    @property
    def unanswered(self) -> Collection[str]:
        """Topic filters whose subscription is not sent yet, or not answered."""
        return [*(topic_filter for topic_filter, _ in self._sent.waiting), *self._unsent]

    @property
    def overdue(self) -> float:
        """Seconds for which the next answer has been awaited."""
        return self._sent.overdue

    @property
    def _unsent(self) -> list[str]:
        return [*(each[0] for each in self._next), *(each[1] for each in self._later)]

    def _subscribe(self, topic_filter: str, qos: int) -> None:
        sent = subscription_sent(topic_filter)
        if (until := self._trials.left_out_until(sent.key)) is not None:
            self._later.append((until, topic_filter, qos))
        elif self._trials.tries_alone(sent.key):
            self._next.append((topic_filter, qos))
        else:
            self._send(topic_filter, qos)

    def _send(self, topic_filter: str, qos: int) -> None:
        _, mid = self._client.subscribe(topic_filter, qos)
        if mid is not None:
            self._sent.add(mid, (topic_filter, qos))
            self._trials.sent(mid, subscription_sent(topic_filter), is_answered=True)

    def _on_subscribe(
        self, client: paho.Client, _userdata: object, mid: int, reasons: list[ReasonCode], _extra: Properties | None
    ) -> None:
        self._trials.answered(mid)
        subscription = self._sent.take(mid)
        if subscription is None:
            return
        topic_filter, qos = subscription
        speaks_5 = client.protocol == paho.MQTTv5
        answer = answer_of(reasons[0]) if speaks_5 or not reasons[0].is_failure else REFUSED_BY_3_1_1
        if qos:
            self._answers.append((topic_filter, answer))
        if answer.outcome is Outcome.POSTPONED:
            self._later.append((time.monotonic() + SUBSCRIBE_AGAIN_AFTER, topic_filter, qos))
        elif answer.outcome is Outcome.REFUSED:
            self.refused.add(topic_filter)
            if not qos:
                log.warning("broker %s refuses to let %s be read: %s", self._broker, topic_filter, answer.reason)


def _incoming(message: paho.MQTTMessage) -> Incoming:
    return Incoming(
        message.topic,
        bytes(message.payload),
        message.retain,
        getattr(message.properties, "ResponseTopic", None),
        getattr(message.properties, "CorrelationData", None),
    )
