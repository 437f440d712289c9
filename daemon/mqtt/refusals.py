"""Which topics the broker refuses messages on, why, and when a message that it refused for now is sent again."""

import logging
from dataclasses import dataclass, field

from edgemeta.daemon.messages.channels import CHANNELS
from edgemeta.daemon.mqtt.answers import Answer, Outcome
from edgemeta.daemon.runtime.backoff import Backoff

log = logging.getLogger(__name__)

RETRY_FIRST, RETRY_CAP = 0.5, 5.0
"""Seconds until one message of a topic is sent again after it was refused for now: the first time, and at most."""

CALM = 5.0
"""Seconds after the last refusal of a kind of messages in which one is accepted before they count as accepted again: a
broker that refuses every other message is one that refuses."""

KINDS = {channel.address.rpartition("/")[2]: channel.name for channel in CHANNELS if not channel.received}
"""Kinds of messages by the last level of their topics."""

RESULTS = frozenset(channel.name for channel in CHANNELS if channel.kept)
"""Kinds of messages about frames."""


def kind_of(topic: str) -> str:
    """Return what is published on a topic, for descriptions: `frame`, `state`, `discovery` and so on."""
    last = topic.rpartition("/")[2]
    return "discovery" if last == "config" else KINDS.get(last, "answer")


@dataclass
class _Kind:
    """Refusals of one kind of messages since they began: how many, the newest, and when one was accepted after it."""

    answer: Answer | None = None
    topics: set[str] = field(default_factory=set)
    count: int = 0
    last: float = 0.0
    accepted: bool = False


@dataclass
class _Retry:
    """When a topic's postponed message is sent again; `at` is infinite while the answer is awaited."""

    backoff: Backoff
    at: float


class Refusals:
    """Follows the answers to all messages, in the link's thread. Any may call `refusal`, and read the attributes."""

    def __init__(self, broker: str) -> None:
        """`broker`: its address, for messages."""
        self._broker = broker
        self._kinds: dict[str, _Kind] = {}
        self._retries: dict[str, _Retry] = {}
        self._subscriptions: dict[str, Answer] = {}
        self.problem: str | None = None
        """Description of what is refused now; None if nothing is."""
        self.of_results = False
        """Whether messages about frames are refused now: those of the kinds that wait in the outbox."""

    def refused(self, topic: str, answer: Answer, now: float, until: float | None = None) -> None:
        """Note a message that was not accepted; log the first of its kind, and each change of the reason.

        until: when a postponed one is sent again, where that is known.
        """
        kind = kind_of(topic)
        known = self._kinds.setdefault(kind, _Kind())
        changed = known.answer != answer
        known.topics.add(topic)
        known.count += 1
        known.answer, known.last, known.accepted = answer, now, False
        if answer.outcome is Outcome.POSTPONED:
            retry = self._retries.setdefault(topic, _Retry(Backoff(RETRY_FIRST, RETRY_CAP), 0.0))
            retry.at = until or now + retry.backoff.next()
        if changed:
            fields = {"broker": self._broker, "topic": topic}
            log.warning("broker %s %s on %s", self._broker, _description(kind, answer), topic, extra=fields)
            self._describe()

    def accepted(self, topic: str) -> None:
        """Note a message that was accepted."""
        if self._kinds and (known := self._kinds.get(kind_of(topic))) is not None:
            known.topics.discard(topic)
            known.accepted = not known.topics

    def subscribed(self, topic_filter: str, answer: Answer) -> None:
        """Note the answer to a subscription; log it where it has changed."""
        before = self._subscriptions.pop(topic_filter, None)
        if answer.outcome is not Outcome.ACCEPTED:
            self._subscriptions[topic_filter] = answer
        if before != self._subscriptions.get(topic_filter):
            fields = {"broker": self._broker, "topic": topic_filter}
            log.warning("broker %s %s", self._broker, _subscription(topic_filter, answer), extra=fields)
            self._describe()

    def refusal(self, topic: str) -> str | None:
        """Describe the refusal of the messages on a topic; None if they are accepted. Any thread may call."""
        known = self._kinds.get(kind_of(topic))
        if known is None or known.answer is None or topic not in known.topics:
            return None
        return _description(kind_of(topic), known.answer)

    def is_held(self, topic: str) -> bool:
        """Whether the topic's messages wait because one was refused for now."""
        return topic in self._retries

    def release(self, topic: str) -> None:
        """The topic's messages do not wait any more."""
        del self._retries[topic]

    def due(self, now: float) -> list[str]:
        """Return the topics of which one message is to be sent again now."""
        topics = [topic for topic, retry in self._retries.items() if retry.at <= now]
        for topic in topics:
            self._retries[topic].at = float("inf")
        return topics

    def disconnected(self) -> None:
        """The connection ended: on the next one all messages are sent."""
        self._retries.clear()

    def poll(self, now: float) -> None:
        """Log the end of refusals."""
        for kind, known in list(self._kinds.items()):
            if known.accepted and now - known.last > CALM:
                del self._kinds[kind]
                log.warning(
                    "broker %s accepts %s messages again, %d were refused",
                    *(self._broker, kind, known.count),
                    extra={"broker": self._broker},
                )
                self._describe()

    def _describe(self) -> None:
        kinds: dict[Answer, list[str]] = {}
        for kind, known in self._kinds.items():
            if known.answer is not None:
                kinds.setdefault(known.answer, []).append(kind)
        parts = [_description(", ".join(alike), answer) for answer, alike in kinds.items()]
        parts += [_subscription(*each) for each in self._subscriptions.items()]
        self.problem = "; ".join(parts) or None
        self.of_results = not RESULTS.isdisjoint(self._kinds)


def _description(kinds: str, answer: Answer) -> str:
    return f"{_VERBS[answer.outcome]} {kinds} messages: {answer.reason}"


def _subscription(topic_filter: str, answer: Answer) -> str:
    reason = f": {answer.reason}" if answer.reason else ""
    return f"{_VERBS[answer.outcome]} a subscription to {topic_filter}{reason}"


_VERBS = {Outcome.ACCEPTED: "accepts again", Outcome.POSTPONED: "refuses for now", Outcome.REFUSED: "refuses"}
