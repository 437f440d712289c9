"""Publishes what came of a frame: its own message, the camera's state, and events."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from edgemeta.daemon.capture.latest_frames import CapturedFrame
from edgemeta.daemon.inference.pipeline import FrameResult
from edgemeta.daemon.messages.channels import EVENT, FRAME, STATE
from edgemeta.daemon.messages.events import EventKind, EventMessage, ObjectChange
from edgemeta.daemon.metrics.counters import FrameCounters
from edgemeta.daemon.metrics.latency import StageLatencies
from edgemeta.daemon.mqtt.publisher import Publisher
from edgemeta.daemon.service.plain_counts import PlainCounts


@dataclass(eq=False)
class FramePublisher:
    """Queues the messages of each frame, with its latencies and counters. The worker's thread calls.

    counters: of each camera.
    """

    _publisher: Publisher
    _counters: Mapping[str, FrameCounters]
    _latencies: StageLatencies
    _plain_counts: PlainCounts | None = None

    def publish(self, captured: CapturedFrame, result: FrameResult) -> None:
        """Queue the messages. A withheld frame is counted after its own message was made."""
        camera, updates = captured.camera, result.updates
        counters = self._counters[camera]
        self._latencies.add(result.stages)
        if updates.withheld:
            counters.withheld += 1
        else:
            started = time.monotonic_ns()
            outgoing = self._publisher.encode(FRAME, result.fields, camera, captured.frame.captured_ns)
            self._latencies.add({"encode": outgoing.made_ns - started})
            self._publisher.send(outgoing)
        if updates.state is not None:
            self._publisher.send(self._publisher.encode(STATE, updates.state, camera))
            if self._plain_counts is not None:
                self._plain_counts.publish(camera, updates.state)
        self.publish_events(camera, updates.events)

    def publish_events(self, camera: str, events: Sequence[EventMessage]) -> None:
        """Queue events of a camera."""
        counters = self._counters[camera]
        for event in events:
            counters.events[event.kind.value, event.change.value if event.change else ""] += 1
            if event.label is not None and event.zone is None and event.kind is EventKind.APPEARED:
                counters.appeared[event.label] += (event.count or 0) - (event.previous_count or 0)
            elif event.label is not None and event.change is ObjectChange.BEGIN:
                counters.appeared[event.label] += 1
            self._publisher.send(self._publisher.encode(EVENT, event, camera))
