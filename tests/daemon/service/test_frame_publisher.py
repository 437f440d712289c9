"""What is published of a frame, and what is counted and measured of it."""

import json
import time
from dataclasses import replace
from typing import cast

import numpy as np

from edgemeta.daemon.capture.latest_frames import CapturedFrame
from edgemeta.daemon.capture.source import Frame
from edgemeta.daemon.inference.loaded_model import LoadedModel
from edgemeta.daemon.inference.pipeline import FrameResult, Identity, Pipeline
from edgemeta.daemon.inference.readers.settings import CameraSettings, Rule
from edgemeta.daemon.messages.channels import Topics
from edgemeta.daemon.messages.events import EventKind
from edgemeta.daemon.metrics.counters import FrameCounters
from edgemeta.daemon.metrics.latency import StageLatencies
from edgemeta.daemon.mqtt.link import MqttLink
from edgemeta.daemon.mqtt.outbox.delivery import OutgoingMessage
from edgemeta.daemon.mqtt.publisher import Publisher
from edgemeta.daemon.runtime.clock import Clock
from edgemeta.daemon.service.frame_publisher import FramePublisher
from edgemeta.plugins.cpu.backend import BACKEND
from tests.daemon.conftest import colour_model


class SentMessages:
    """In place of a link: keeps what is sent."""

    def __init__(self) -> None:
        self.messages: list[OutgoingMessage] = []

    def send(self, message: OutgoingMessage) -> None:
        self.messages.append(message)


class Rig:
    """A publisher of one camera, `front`, and a frame that has been classified: a new state and its event."""

    def __init__(self) -> None:
        self.link, self.counters, self.latencies = SentMessages(), FrameCounters(), StageLatencies()
        publisher = Publisher(cast("MqttLink", self.link), Topics("edgemeta", "dev"), qos=1)
        self.publisher = FramePublisher(publisher, {"front": self.counters}, self.latencies)
        model = replace(colour_model(), name="colour", digest="0" * 64)
        loaded = LoadedModel(model, "cpu", BACKEND.compile(model, {}))
        pipeline = Pipeline(Identity("dev", "0" * 32), "front", loaded, CameraSettings(1, Rule(1, 1)), Clock())
        self.captured = CapturedFrame("front", 1, Frame(np.zeros((8, 8, 3), np.uint8), time.monotonic_ns()), 0)
        self.result: FrameResult = pipeline.classify(self.captured, self.counters.drops(0), 0)
        loaded.close()

    def publish(self, result: FrameResult) -> list[str]:
        """Publish a result; return the topics of its messages."""
        self.publisher.publish(self.captured, result)
        return [message.topic for message in self.link.messages]


def test_a_frame_that_changes_the_state_has_three_messages_and_its_stages_are_measured() -> None:
    rig = Rig()
    topics = rig.publish(rig.result)
    assert topics == ["edgemeta/dev/front/frame", "edgemeta/dev/front/state", "edgemeta/dev/front/event"]
    frame, state, _ = (json.loads(message.payload) for message in rig.link.messages)
    assert frame["state"] == state["state"] == rig.result.fields["state"]
    assert rig.link.messages[0].captured_ns == rig.captured.frame.captured_ns
    measured = rig.latencies.drain()
    assert (measured.inference.count, measured.encode.count) == (1, 1)


def test_a_withheld_frame_is_counted_and_has_no_message() -> None:
    rig = Rig()
    withheld = replace(rig.result, updates=rig.result.updates._replace(state=None, events=(), withheld=True))
    assert rig.publish(withheld) == []
    assert rig.counters.withheld == 1
    assert rig.latencies.drain().encode.count == 0


def test_an_object_that_appears_is_counted_once_not_again_for_each_zone() -> None:
    rig = Rig()
    (event,) = rig.result.updates.events
    appeared = {"kind": EventKind.APPEARED, "label": "cat", "count": 3, "previous_count": 1}
    events = (event.model_copy(update=appeared), event.model_copy(update={**appeared, "zone": "door"}))
    rig.publish(replace(rig.result, updates=rig.result.updates._replace(events=events)))
    assert rig.counters.appeared == {"cat": 2}
    assert rig.counters.events == {("appeared", ""): 2}
