"""Pictures for the present connection.

They are no measurements, so they wait for everything else, and not for another connection.
"""

import threading

from edgemeta.daemon.mqtt.outbox.delivery import Delivery, OutgoingMessage


class PictureQueue:
    """The newest picture of each topic, one of them in flight at a time. Any thread may put."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._unsent: dict[str, OutgoingMessage] = {}
        self._in_flight: Delivery | None = None

    def put(self, message: OutgoingMessage) -> None:
        """Take a picture; an older one of its topic is dropped."""
        with self._lock:
            self._unsent[message.topic] = message

    def clear(self) -> None:
        """A connection begins: what was to be sent on an earlier one is dropped."""
        with self._lock:
            self._unsent.clear()
            self._in_flight = None

    @property
    def has_messages(self) -> bool:
        """Whether a picture may be sent now. Read often, so without the lock."""
        return bool(self._unsent) and self._in_flight is None

    def next(self) -> Delivery | None:
        """Return the picture to send next, in flight from now on; None while one is, and where there is none."""
        if not self.has_messages:
            return None
        with self._lock:
            topic = next(iter(self._unsent))
            self._in_flight = Delivery(self._unsent.pop(topic))
            return self._in_flight

    def settle(self, delivery: Delivery) -> None:
        """The broker has answered a message, if it is that in flight."""
        if delivery is self._in_flight:
            self._in_flight = None
