"""Frames that the broker refuses: the service says so, and a subscriber's account closes."""

import signal
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from rig.waiting import wait_until
from tests.daemon.conftest import broker_keys, wait_for_line

EVERYTHING = "topic readwrite #\n"
NO_FRAMES = "topic read #\n" + "".join(
    f"topic write edgemeta/test/{topic}\n" for topic in ("+/state", "+/status", "stats")
)


def not_ready(page: int) -> str:
    """Return what /readyz says while the service is not ready; readiness is debounced."""
    try:
        urlopen(f"http://127.0.0.1:{page}/readyz").close()
    except HTTPError as refused:
        with refused as answer:
            return answer.read().decode()
    return ""


@pytest.mark.gate("15 s: the access list of the broker is changed twice")
def test_refused_frames_are_said_and_counted(
    make_broker: Any, make_subscriber: Any, write_config: Any, run_daemon: Any, free_port: Any, tmp_path: Path
) -> None:
    acl = tmp_path / "acl"

    def allow(lines: str) -> None:
        acl.write_text(lines)
        acl.chmod(0o600)

    allow(EVERYTHING)
    broker, page = make_broker("allow_anonymous true", f"acl_file {acl}"), free_port()
    broker.start()
    subscriber = make_subscriber(broker.port)
    daemon = run_daemon(write_config(mqtt=broker_keys(broker), web={"enabled": True, "port": page}))
    subscriber.wait("front/frame", 10)
    allow(NO_FRAMES)
    broker.process.send_signal(signal.SIGHUP)
    wait_for_line(daemon, "refuses frame messages: not authorized on edgemeta/test/front/frame")
    wait_until(lambda: "refuses frame messages: not authorized" in not_ready(page), "readiness")
    said = subscriber.wait_for("front/status", lambda message: message.json["problem"]).json
    assert (said["status"], said["reason"]) == ("running", "the broker refuses frame messages: not authorized")
    subscriber.wait_for("test/stats", lambda message: message.json["cameras"]["front"]["dropped"]["refused"] > 5)
    allow(EVERYTHING)
    broker.process.send_signal(signal.SIGHUP)
    before = len(subscriber.on("front/frame"))
    subscriber.wait("front/frame", before + 30)
    wait_for_line(daemon, "accepts frame messages again")
    wait_until(lambda: not subscriber.on("front/status")[-1].json["problem"], "the end of the problem")
    wait_until(lambda: daemon.stop() == 0, "the end")
    frames = [message.json for message in subscriber.on("front/frame")]
    last = frames[-1]
    assert last["dropped"]["refused"] > 5
    assert last["sequence"] - len(frames) == sum(last["dropped"].values()) + last["withheld"]
