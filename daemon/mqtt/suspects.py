"""What probably made the broker close the connection: some brokers answer a packet that they do not allow in this way.

What the broker had not answered when the connection ended is suspected. If that connection was short, or was not the
first to end so, everything is tried alone on the next one: a packet is sent when the last is answered, frames first.
Then there is one suspect. After the second such loss in a row, as the first may be chance, it is left out for a while.
"""

import logging
import time
from dataclasses import dataclass
from typing import NamedTuple

from edgemeta.daemon.mqtt.outbox.delivery import OutgoingMessage
from edgemeta.daemon.mqtt.refusals import kind_of
from edgemeta.daemon.runtime.backoff import Backoff

log = logging.getLogger(__name__)

LEFT_OUT_FIRST, LEFT_OUT_CAP = 60.0, 3600.0
"""Seconds for which a suspect is left out: the first time, and at most."""

MOST_LOSSES = 3
"""After so many losses, each while the same message of the outbox was tried alone, it counts as refused."""

NAME_SIZE_FROM = 10_000
"""Bytes of a message from which its size is named: it may be the reason."""


class Sent(NamedTuple):
    """A packet that was sent and is not answered.

    key: what is left out together with it: a topic of the outbox, otherwise one kind of messages or subscriptions.
    kept: whether it is a message from the outbox. content: hash of the payload, None for a subscription.
    """

    key: str
    description: str
    kept: bool = False
    content: int | None = None


class Suspect(NamedTuple):
    """What was not answered when the connection ended; alone: whether nothing else was."""

    sent: Sent
    alone: bool


def key_of(message: OutgoingMessage) -> str:
    """Return what is left out together with a message."""
    return message.topic if message.kept else f"{kind_of(message.topic)} messages"


def message_sent(message: OutgoingMessage) -> Sent:
    """Return a message as a packet that may be suspected."""
    size = f" of {len(message.payload) // 1000} kB" if len(message.payload) >= NAME_SIZE_FROM else ""
    return Sent(key_of(message), f"a message{size} on {message.topic}", message.kept, hash(message.payload))


def subscription_sent(topic_filter: str) -> Sent:
    """Return a subscription as a packet that may be suspected; those with the same parent topic go together."""
    return Sent(f"subscriptions below {topic_filter.rpartition('/')[0]}", f"a subscription to {topic_filter}")


@dataclass
class _Known:
    """A suspect that was tried alone: losses, of the outbox with the same content, and until when it is left out."""

    sent: Sent
    backoff: Backoff
    losses: int = 0
    until: float = 0.0


class Suspects:
    """Follows the ends of connections. Only the link's thread calls it; any may read `problem`.

    careful: whether everything is tried alone on the next connection.
    """

    def __init__(self, broker: str) -> None:
        """`broker`: its address, for messages."""
        self.careful = False
        self._broker = broker
        self._known: dict[str, _Known] = {}
        self._last: str | None = None

    def lost(self, suspect: Suspect | None, was_short: bool) -> bool:
        """A connection ended. Returns whether the next one will be used differently, so that it may come soon.

        was_short: whether it ended soon after it was accepted. A long one may just have been cut.
        """
        was_careful, last = self.careful, self._last
        self._last = suspect.sent.key if suspect is not None else None
        again = suspect is not None and not suspect.sent.kept and last == suspect.sent.key
        self.careful = suspect is not None and (was_short or suspect.alone or again)
        if suspect is None or not suspect.alone:
            return self.careful and not was_careful
        sent = suspect.sent
        known = self._known.setdefault(sent.key, _Known(sent, Backoff(LEFT_OUT_FIRST, LEFT_OUT_CAP)))
        known.losses = known.losses + 1 if known.sent.content == sent.content or not sent.kept else 1
        known.sent = sent
        if known.losses > 1:
            pause = known.backoff.next()
            known.until = time.monotonic() + pause
            text = "the connection to broker %s ended after %s was sent; %s are left out for %.0f s"
            what = f"messages on {sent.key}" if sent.kept else sent.key
            log.warning(text, self._broker, sent.description, what, pause, extra={"broker": self._broker})
        return True

    def left_out_until(self, key: str) -> float | None:
        """Return until when (monotonic) something is left out; None if it is not."""
        known = self._known.get(key)
        return known.until if known is not None and known.until > time.monotonic() else None

    def tries_alone(self, key: str) -> bool:
        """Whether a packet is to be sent only when all others are answered, and nothing before its answer."""
        return self.careful or key in self._known

    def condemns(self, key: str, message: OutgoingMessage) -> bool:
        """Whether a message ended so many connections that it counts as refused."""
        known = self._known.get(key)
        return (
            known is not None
            and message.kept
            and known.losses >= MOST_LOSSES
            and known.sent.content == hash(message.payload)
        )

    def clear(self, key: str) -> None:
        """The broker has answered a packet that was tried alone."""
        self._known.pop(key, None)

    @property
    def problem(self) -> str | None:
        """Description of the subscriptions that are left out; None if there are none."""
        now = time.monotonic()
        left_out = [key for key, known in list(self._known.items()) if known.sent.content is None and known.until > now]
        return f"ends the connection after {', '.join(left_out)}" if left_out else None
