"""What is on its way to the broker: a message, and what became of it."""

import time
from dataclasses import dataclass, field

ROW_OVERHEAD = 100
"""Bytes that a kept message takes beside its topic and payload, on disk and, roughly, in memory."""


@dataclass(frozen=True, eq=False, slots=True)
class OutgoingMessage:
    """One message to publish.

    kept: whether it waits in the outbox for a broker that is away. A retained message is also sent at every connect.
    captured_ns: when its frame was captured, 0 for a message without one.
    correlation: the mark by which the receiver of an answer knows its question (MQTT 5 only).
    """

    topic: str
    payload: bytes
    qos: int
    retain: bool
    kept: bool = False
    captured_ns: int = 0
    correlation: bytes | None = None
    made_ns: int = field(default_factory=time.monotonic_ns)

    @property
    def size(self) -> int:
        """Bytes that it counts for in the outbox."""
        return len(self.topic) + len(self.payload) + ROW_OVERHEAD


@dataclass(eq=False, slots=True)
class Delivery:
    """A message on its way.

    own: made since this start of the service, so that its monotonic times mean something.
    late: made before the present connection, or sent too late to count as live: it is marked historical.
    row: its number in the store; None while it is in memory only.
    settled: the broker has answered it, or it was dropped: whoever finds it in a queue passes it by.
    """

    message: OutgoingMessage
    own: bool = True
    late: bool = False
    row: int | None = None
    settled: bool = False
