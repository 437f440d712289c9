"""A message for the broker, and the state of its delivery."""

import time
from dataclasses import dataclass, field

ROW_OVERHEAD = 100
"""Bytes that a kept message takes in addition to its topic and payload: on disk and, roughly, in memory."""


@dataclass(frozen=True, eq=False, slots=True)
class OutgoingMessage:
    """One message to publish.

    kept: whether it waits in the outbox for an unreachable broker. A retained message is also sent at every connect.
    captured_ns: when its frame was captured (monotonic), 0 for a message without one. made_ns: when it was encoded
    (monotonic). correlation: correlation data of an answer (MQTT 5 only). gives_way: whether others are sent before it
    on a slow line. picture: whether it waits for all others, is replaced by a newer one, and ends with the connection.
    """

    topic: str
    payload: bytes
    qos: int
    retain: bool
    kept: bool = False
    captured_ns: int = 0
    correlation: bytes | None = None
    gives_way: bool = False
    picture: bool = False
    made_ns: int = field(default_factory=time.monotonic_ns)

    @property
    def size(self) -> int:
        """Bytes that it counts as in the outbox."""
        return len(self.topic) + len(self.payload) + ROW_OVERHEAD


@dataclass(eq=False, slots=True)
class Delivery:
    """A message and the state of its delivery.

    this_boot: made since this start of the service, so that its monotonic times are valid.
    replayed: made before the present connection, or queued for too long to count as live: it is not retained.
    historical: sent late. live: it waits in a queue of live messages. sent_ns: when it was sent last (monotonic).
    row: its number in the store; None while it is in memory only.
    settled: the broker has answered it, or it was dropped. evicted: it is no longer in memory, and will be read from
    disk. In either case it is skipped wherever it is still in a queue.
    """

    message: OutgoingMessage
    this_boot: bool = True
    replayed: bool = False
    historical: bool = False
    live: bool = False
    sent_ns: int = 0
    row: int | None = None
    settled: bool = False
    evicted: bool = False
