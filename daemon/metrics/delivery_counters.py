"""Per-camera delivery counters for frame messages."""

import time

from edgemeta.daemon.metrics.counters import FrameCounters
from edgemeta.daemon.metrics.latency import StageLatencies
from edgemeta.daemon.mqtt.outbox.delivery import Delivery


class DeliveryCounters:
    """Counts messages by topic; ignores topics without frame messages, and messages of earlier boots."""

    def __init__(self, counters: dict[str, FrameCounters], latencies: StageLatencies) -> None:
        self._counters = counters
        self._latencies = latencies

    def acknowledged(self, delivery: Delivery) -> None:
        """Count a message that the broker acknowledged and, if it was live, its latency."""
        counters = self._counters.get(delivery.message.topic)
        if counters is None or not delivery.this_boot:
            return
        counters.published += 1
        if not delivery.replayed:
            now = time.monotonic_ns()
            message = delivery.message
            self._latencies.add({"publish": now - message.made_ns, "total": now - message.captured_ns})

    def refused(self, delivery: Delivery) -> None:
        """Count a message that the broker refused for good."""
        counters = self._counters.get(delivery.message.topic)
        if counters is not None and delivery.this_boot:
            counters.refused += 1

    def dropped(self, topic: str, number: int) -> None:
        """Count messages of this boot that the outbox dropped."""
        if topic in self._counters:
            self._counters[topic].outbox += number
