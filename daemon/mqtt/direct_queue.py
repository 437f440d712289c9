"""Messages that do not wait in the outbox: retained ones, which are sent again at every connect, and answers and stats.

A broker may restart empty. So the newest retained message of each topic is kept here and sent on every connection.
"""

import threading

from edgemeta.daemon.mqtt.outbox.delivery import Delivery, OutgoingMessage


class DirectQueue:
    """What is to be sent on the present connection, before anything from the outbox. Any thread may put.

    Of retained messages only the newest of each topic is sent. A retained message that is kept in the outbox comes from
    there on the present connection, and from here on the next ones.
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
