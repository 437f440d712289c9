"""A board without a battery starts in 1970, and its clock is set while the service runs: every time is right then."""

import time
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from edgemeta.daemon.runtime import clock
from edgemeta.daemon.runtime.deadline import Deadline
from edgemeta.daemon.service.plan import prepare
from edgemeta.daemon.service.service import Service
from rig.waiting import wait_until
from tests.daemon.conftest import Received, broker_keys

TIMES = {"info": "started", "front/status": "since", "swap": "time", "front/state": "since"}
"""The retained messages with a time, and its field."""


def test_times_of_retained_messages_are_sent_again_when_the_clock_is_set(
    broker: Any, subscriber: Any, write_config: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, error_ns = time.time_ns, [-time.time_ns() + 60 * clock.NS]
    monkeypatch.setattr(time, "time_ns", lambda: now() + error_ns[0])
    monkeypatch.setattr(clock, "kernel_says_synchronized", lambda: error_ns[0] == 0)
    began = datetime.now(timezone.utc)
    crashes: list[BaseException] = []
    keys = {"state": {"min_frames": 1, "window_frames": 1}, "publish": {"heartbeat_interval": 3600}}
    service = Service(prepare(write_config(mqtt=broker_keys(broker), **keys)), crashes.append)
    service.start()
    try:
        for topic, key in TIMES.items():
            early = subscriber.wait(topic)[-1].json
            assert early[key].startswith("1970")
            assert not early["clock_synchronized"]
        wait_until(lambda: service.parts.health().frames > 3, "frames")
        error_ns[0] = 0
        for topic, key in TIMES.items():

            def is_right(message: Received, key: str = key) -> bool:
                stamp = datetime.fromisoformat(message.json[key])
                return abs(stamp - began) < timedelta(seconds=60) and message.json["clock_synchronized"]

            subscriber.wait_for(topic, is_right)
        times = {topic: subscriber.on(topic)[-1].json[key] for topic, key in TIMES.items()}
        assert times["info"] == service.parts.telemetry.info().model_dump(mode="json")["started"]
    finally:
        service.stop(Deadline(5.0))
    assert crashes == []
