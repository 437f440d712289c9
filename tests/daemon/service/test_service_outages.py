"""`edgemeta run` as a process while its broker, its disk or its password fail."""

import re
import resource
import time
from collections.abc import Callable
from contextlib import suppress
from http.client import HTTPConnection
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

from rig.mqtt_proxy import MqttProxy
from rig.waiting import wait_until
from tests.daemon.conftest import (
    DEADLINE,
    assert_every_frame_accounted_for,
    broker_keys,
    metric,
    wait_for_line,
    wait_until_metric,
)

WRITTEN = "edgemeta_outbox_written_bytes_total"


def test_without_a_broker_it_runs_and_finds_the_broker_later(
    make_broker: Any, make_subscriber: Any, write_config: Any, run_daemon: Any
) -> None:
    broker = make_broker()
    daemon = run_daemon(write_config(mqtt=broker_keys(broker)))
    wait_for_line(daemon, "cannot be reached: Connection refused; next try in")
    wait_for_line(daemon, "camera front: running")
    with daemon.paused():
        broker.start()
        subscriber = make_subscriber(broker.port)

    def frames() -> list[dict[str, Any]]:
        return sorted((message.json for message in subscriber.on("front/frame")), key=itemgetter("sequence"))

    def complete() -> bool:
        """Late messages arrive between live ones: have all arrived that the newest counts?"""
        known = frames()
        return len(known) >= 5 and known[-1]["sequence"] - len(known) == sum(known[-1]["dropped"].values())

    wait_until(complete, "all frames")
    assert_every_frame_accounted_for(frames())
    assert subscriber.wait("info")[0].json["cameras"] == ["front"]


def test_after_a_broker_outage_frames_come_late_and_retained_messages_again(
    broker: Any, make_subscriber: Any, write_config: Any, run_daemon: Any
) -> None:
    daemon = run_daemon(write_config(mqtt=broker_keys(broker), state={"min_frames": 1, "window_frames": 1}))
    before = make_subscriber(broker.port)
    before.wait("front/frame", 5)
    broker.stop()
    wait_for_line(daemon, "Connection refused")
    with daemon.paused():
        broker.start()
        after = make_subscriber(broker.port)
    after.wait_for("front/frame", lambda message: message.json["historical"])
    after.wait_for("front/frame", lambda message: not message.json["historical"])
    for topic in ("info", "front/status", "front/state", "availability"):
        after.wait(topic)
    assert daemon.stop() == 0


def test_a_full_disk_is_reported_and_loses_no_message(
    broker: Any, make_subscriber: Any, write_config: Any, run_daemon: Any, tmp_path: Path
) -> None:
    """The kernel refuses to let files grow beyond 4 kB, less than a commit takes: messages wait in memory meanwhile."""
    config = write_config(mqtt=broker_keys(broker))
    broker.stop()
    daemon = run_daemon(config)
    resource.prlimit(daemon.process.pid, resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
    wait_for_line(daemon, "messages are kept in memory, the newest 8 MB")
    wait_for_line(daemon, "Connection refused")
    assert f"outbox file {tmp_path / 'state' / 'outbox-test.sqlite3'} cannot be used: " in daemon.said
    with daemon.paused():
        broker.start()
        subscriber = make_subscriber(broker.port)
    wait_for_line(daemon, "connected to broker")
    stats = subscriber.wait_for("test/stats", lambda message: message.json["outbox"]["place"] == "memory").json
    assert "cannot be used" in stats["outbox"]["reason"]
    assert stats["broker"]["failures"]["unreachable"] > 0
    assert "Connection refused" in stats["broker"]["last_failure"]
    resource.prlimit(daemon.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    subscriber.wait_for(
        "test/stats",
        lambda message: message.json["outbox"]["place"] == "disk" and message.json["outbox"]["waiting"] < 3,
    )
    assert daemon.stop() == 0
    subscriber.wait_for("availability", lambda message: message.payload == b"offline")
    frames = {m.json["sequence"]: m.json for m in subscriber.on("front/frame")}
    assert_every_frame_accounted_for([frames[number] for number in sorted(frames)], from_the_first=False)
    last = subscriber.on("stats")[-1].json["cameras"]["front"]
    assert last["captured"] == last["published"] + sum(last["dropped"].values())


@pytest.mark.gate("12 s: two starts and an outage")
def test_messages_wait_for_the_next_start(
    make_broker: Any, make_subscriber: Any, write_config: Any, run_daemon: Any, free_port: Any
) -> None:
    """No broker at all; an end in order, a SIGKILL, and everything comes with the third start."""
    broker, page = make_broker(), free_port()
    config = write_config(mqtt=broker_keys(broker), web={"enabled": True, "port": page})
    first = run_daemon(config)
    wait_until_metric(page, "edgemeta_frames_processed_total", 30)
    assert first.stop() == 0
    second = run_daemon(config)
    wait_until_metric(page, "edgemeta_frames_processed_total", 30)
    for _ in range(2):  # a write may have begun before those frames: the second one holds them
        wait_until_metric(page, WRITTEN, metric(page, WRITTEN) + 1)
    second.process.kill()
    second.process.wait()
    broker.start()
    subscriber = make_subscriber(broker.port)
    third = run_daemon(config)
    subscriber.wait_for("test/stats", lambda message: message.json["outbox"]["waiting"] < 3)
    assert third.stop() == 0
    subscriber.wait_for("availability", lambda message: message.payload == b"offline")
    frames = [message.json for message in subscriber.on("front/frame")]
    boots = {frame["boot"] for frame in frames if frame["historical"]}
    boots -= {frame["boot"] for frame in frames if not frame["historical"]}  # the third may have kept a frame, too
    assert len(boots) == 2
    for boot in boots:
        assert_every_frame_accounted_for([frame for frame in frames if frame["boot"] == boot])
        assert len([frame for frame in frames if frame["boot"] == boot]) > 1


def test_a_wrong_password_is_reported_and_tried_again(make_broker: Any, write_config: Any, run_daemon: Any) -> None:
    broker = make_broker("allow_anonymous false")
    broker.start()
    daemon = run_daemon(
        write_config(mqtt=broker_keys(broker, username="ali", password_env="EDGEMETA_PASSWORD")),
        EDGEMETA_PASSWORD="geheim",
    )
    wait_for_line(daemon, "refused the connection: not authorized; next try in")
    assert "connected to broker" not in daemon.said
    assert "geheim" not in daemon.said
    assert daemon.stop() == 0


def test_a_broker_that_acknowledges_nothing_is_neither_ready_nor_connected(
    broker: Any, write_config: Any, run_daemon: Any, free_port: Any
) -> None:
    network = MqttProxy(broker.port)
    port = free_port()
    mqtt = broker_keys(broker, port=network.port, ack_timeout=1.0)
    daemon = run_daemon(write_config(mqtt=mqtt, web={"enabled": True, "port": port}))
    try:
        wait_for(port, "/readyz", lambda status, text: status == 200 and "connected" in text)
        network.drop_packets()
        _, text = wait_for(port, "/readyz", lambda status, text: status == 503 and "acknowledged" in text)
        assert "not ready" in text
        assert "has not acknowledged a message for 1 s, " in text
        wait_for(port, "/readyz", lambda _, text: re.search(r"[0-9]{2,} messages wait", text) is not None)
        _, metrics = ask(port, "/metrics")
        assert 'edgemeta_broker_state{state="unacknowledged"} 1.0' in metrics
        assert 'edgemeta_broker_state{state="connected"} 0.0' in metrics
        wait_for_line(daemon, "has not acknowledged a message for 1 s; next try in")
        network.pass_all()
        wait_for(port, "/readyz", lambda status, text: status == 200 and "messages wait" not in text)
        assert daemon.said.count("has not acknowledged") == 1
        assert daemon.stop() == 0
    finally:
        network.close()


def ask(port: int, path: str) -> tuple[int, str]:
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def wait_for(port: int, path: str, condition: Callable[[int, str], bool]) -> tuple[int, str]:
    deadline = time.monotonic() + DEADLINE
    answer = (0, "")
    while not condition(*answer):
        assert time.monotonic() < deadline, answer
        with suppress(OSError):
            answer = ask(port, path)
        time.sleep(0.02)
    return answer
