"""What became of frame messages after they were made, counted by camera."""

import time

from edgemeta.daemon.metrics.counters import FrameCounters
from edgemeta.daemon.metrics.latency import StageLatencies
from edgemeta.daemon.mqtt.outbox.delivery import Delivery


class DeliveryCounters:
    """Counts by the topics of frame messages; other topics, and messages of earlier starts, are no matter here."""

    def __init__(self, counters: dict[str, FrameCounters], latencies: StageLatencies) -> None:
        self._counters = counters
        self._latencies = latencies

    def taken(self, delivery: Delivery) -> None:
        """The broker has taken a message: count it and, where it was live, how long it took."""
        counters = self._counters.get(delivery.message.topic)
        if counters is None or not delivery.own:
            return
        counters.published += 1
        if not delivery.late:
            now = time.monotonic_ns()
            message = delivery.message
            self._latencies.add({"publish": now - message.made_ns, "total": now - message.captured_ns})

    def dropped(self, topic: str, number: int) -> None:
        """The outbox has dropped messages of this start."""
        if topic in self._counters:
            self._counters[topic].outbox += number
