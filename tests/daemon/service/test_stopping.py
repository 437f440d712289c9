"""SIGTERM and SIGINT: the end comes in time, whatever hangs, and nothing that waited for the broker is lost."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from rig.service_manager import stream_processes
from rig.waiting import wait_until
from tests.daemon.conftest import broker_keys, wait_for_line, wait_until_metric

WITHIN = 15.0
"""Seconds: what hangs here hangs for ever. `reliability/lifecycle.py` measures against the 2 s that are promised."""


def ends(process: "subprocess.Popen[Any]", number: int = signal.SIGTERM) -> float:
    """Send a signal; return the seconds until the end, which must be one in order."""
    begun = time.monotonic()
    process.send_signal(number)
    assert process.wait(60) == 0
    return time.monotonic() - begun


@pytest.mark.parametrize(("number", "there_is_a_broker"), [(signal.SIGTERM, True), (signal.SIGINT, False)])
def test_a_signal_ends_it(
    make_broker: Any, write_config: Any, run_daemon: Any, number: int, there_is_a_broker: bool
) -> None:
    broker = make_broker()
    if there_is_a_broker:
        broker.start()
    daemon = run_daemon(write_config(mqtt=broker_keys(broker)))
    wait_for_line(daemon, "connected to broker" if there_is_a_broker else "next try in")
    assert ends(daemon.process, number) < WITHIN
    assert "Traceback" not in daemon.said
    assert daemon.said.rstrip().endswith("stopped")


@pytest.fixture
def silent_camera() -> Iterator[dict[str, Any]]:
    """A camera that accepts connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        yield {"source": f"http://127.0.0.1:{silent.getsockname()[1]}/cam", "frame_timeout": 60}


def hang_the_parent_of_streams(service: int) -> None:
    """Stop it and end a stream's process: the stream's camera then waits for the parent, and has its lock."""
    wait_until(lambda: len(stream_processes(service)) >= 2, "a stream's process")
    processes = stream_processes(service)
    os.kill(processes[0], signal.SIGSTOP)
    os.kill(processes[1], signal.SIGKILL)


def test_hung_cameras_do_not_delay_the_stop(
    broker: Any, subscriber: Any, write_config: Any, run_daemon: Any, silent_camera: dict[str, Any]
) -> None:
    """One waits for the parent of the streams' processes, which hangs, one for a server that says nothing."""
    daemon = run_daemon(write_config(cameras={"a": silent_camera, "b": silent_camera}, mqtt=broker_keys(broker)))
    subscriber.wait_for("availability", lambda message: message.payload == b"online")
    subscriber.wait("a/status")
    hang_the_parent_of_streams(daemon.process.pid)
    assert ends(daemon.process) < WITHIN
    subscriber.wait_for("availability", lambda message: message.payload == b"offline")


@pytest.mark.gate("5 s: a broker that hangs")
def test_a_broker_that_hangs_loses_no_message(
    broker: Any, make_subscriber: Any, write_config: Any, run_daemon: Any, free_port: Any
) -> None:
    """A stopped broker keeps its connections and answers nothing: what it did not acknowledge waits on disk."""
    page = free_port()
    config = write_config(mqtt=broker_keys(broker), web={"enabled": True, "port": page})
    subscriber = make_subscriber(broker.port)
    daemon = run_daemon(config)
    before = len(subscriber.wait("front/frame", 5))
    assert broker.process is not None
    broker.process.send_signal(signal.SIGSTOP)
    wait_until_metric(page, "edgemeta_outbox_messages", 20)
    took = ends(daemon.process)
    broker.process.send_signal(signal.SIGCONT)
    assert took < WITHIN
    assert "may be lost" not in daemon.said
    subscriber.wait_for("availability", lambda message: message.payload == b"offline")
    run_daemon(config)
    boot = subscriber.on("front/frame")[0].json["boot"]
    subscriber.wait_for(  # of the second start: the first one had as few when the broker hung
        "test/stats", lambda message: message.json["boot"] != boot and message.json["outbox"]["waiting"] < 3
    )
    first = {m.json["sequence"]: m.json for m in subscriber.on("front/frame") if m.json["boot"] == boot}
    assert len(first) > before + 10
    assert any(frame["historical"] for frame in first.values())
    for one, other in pairwise(first[number] for number in sorted(first)):
        dropped = sum(other["dropped"].values()) - sum(one["dropped"].values())
        assert other["sequence"] - one["sequence"] - 1 == dropped


EVERYTHING_HANGS = """
import sys, threading
from edgemeta.cli.main import main
from edgemeta.daemon.mqtt.outbox.store import Store
from edgemeta.daemon.inference.pipeline import Pipeline
def hang(*_, **__):
    print("hangs", flush=True)
    threading.Event().wait()
step, steps = Pipeline.classify, []
def hang_at_the_tenth_frame(self, *arguments):
    steps.append(0)
    return hang() if len(steps) == 10 else step(self, *arguments)
Pipeline.classify, Store.add = hang_at_the_tenth_frame, hang
sys.argv = ["edgemeta", "run", sys.argv[1]]
main()
"""


@pytest.mark.gate("5 s: it waits for what hangs")
def test_where_everything_hangs_it_stops_in_time_and_reports_what_may_be_lost(
    broker: Any, subscriber: Any, write_config: Any, tmp_path: Path, silent_camera: dict[str, Any]
) -> None:
    """Camera, worker, broker and disk at once."""
    cameras = {"front": {"source": "synthetic://", "fps": 5}, "silent": silent_camera}
    config = write_config(cameras=cameras, mqtt=broker_keys(broker))
    log = tmp_path / "log"
    with log.open("w") as output:
        process = subprocess.Popen([sys.executable, "-c", EVERYTHING_HANGS, str(config)], stdout=output, stderr=output)
    try:
        subscriber.wait("front/frame", 3)
        broker.process.send_signal(signal.SIGSTOP)
        hang_the_parent_of_streams(process.pid)
        wait_until(lambda: "hangs\nhangs\n" in log.read_text(), "worker and disk that hang")
        assert ends(process) < WITHIN
    finally:
        process.kill()
        process.wait()
    assert "outbox: the disk does not respond, " in log.read_text()
