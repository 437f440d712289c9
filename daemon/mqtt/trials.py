"""Which packets of one connection are not answered yet, and which of them are tried alone."""

import time

from edgemeta.daemon.mqtt.suspects import Sent, Suspect, Suspects

UNANSWERED_FOR = 0.5
"""Seconds for which a message of QoS 0, which is never answered, is tried alone."""


class Trials:
    """Follows the packets of one connection: messages and subscriptions, by packet identifier, in order of sending."""

    def __init__(self, suspects: Suspects) -> None:
        self._suspects = suspects
        self._unanswered: dict[int, Sent] = {}
        self._last: Sent | None = None  # of QoS 0, with nothing answered since
        self._alone: Sent | None = None
        self._ends = 0.0
        self._passed: set[str] = set()

    def left_out_until(self, key: str) -> float | None:
        """Return until when something is left out; None if it is not."""
        return self._suspects.left_out_until(key)

    def tries_alone(self, key: str) -> bool:
        """Whether a packet with this key is still to be tried alone."""
        return self._suspects.tries_alone(key) and key not in self._passed

    def may_send(self, key: str) -> bool:
        """Whether a packet may be sent now."""
        return not self.is_running and not (self._unanswered and self.tries_alone(key))

    @property
    def is_running(self) -> bool:
        """Whether a packet is being tried alone: nothing else may be sent."""
        if self._alone is not None and time.monotonic() > self._ends:
            self._pass()
        return self._alone is not None

    def sent(self, identifier: int, sent: Sent, is_answered: bool) -> None:
        """Note a packet that was just sent; is_answered: whether the broker will answer it."""
        if is_answered:
            self._unanswered[identifier] = sent
        else:
            self._last = sent
        if self.tries_alone(sent.key):
            self._alone, self._ends = sent, float("inf") if is_answered else time.monotonic() + UNANSWERED_FOR

    def answered(self, identifier: int) -> None:
        """Note the broker's answer to a packet; messages of QoS 0 have none."""
        sent = self._unanswered.pop(identifier, None)
        if sent is None:
            return
        self._last = None
        if sent is self._alone:
            self._pass()

    @property
    def suspect(self) -> Suspect | None:
        """What is not answered: what is tried alone, otherwise the oldest; None if everything is."""
        sent = self._alone or next(iter(self._unanswered.values()), self._last)
        return None if sent is None else Suspect(sent, sent is self._alone)

    def _pass(self) -> None:
        assert self._alone is not None
        self._passed.add(self._alone.key)
        self._suspects.clear(self._alone.key)
        self._alone = None
