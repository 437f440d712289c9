"""A flood of commands, against a real broker with its default limits: no frame is delayed, and no memory is kept."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgemeta.daemon.mqtt.flood_control import FLOOD_ABOVE
from rig.broker import Mosquitto
from rig.command_client import send_command
from rig.flooder import KINDS, Flooder, block
from rig.system import System
from rig.waiting import wait_until

SECONDS = 3.0
GROWTH_KIB = 27_000
"""17,000 are the synthetic camera's, from the first change of its scene on, ten seconds after its start."""


@pytest.fixture
def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[System]:
    monkeypatch.delenv("COVERAGE_PROCESS_CONFIG", raising=False)  # what coverage itself holds is not to be counted
    if not Mosquitto.installed():
        pytest.skip("mosquitto is not installed (Debian package mosquitto)")
    keys = {"cameras": {"front": {"source": "synthetic://", "fps": 10}}, "log": {"level": "info"}}
    made = System(tmp_path, "flooded", keys, broker=("allow_anonymous true",))
    try:
        made.keys["mqtt"] = {"port": made.broker.port, "keepalive": 30, "ack_timeout": 30}
        made.write_config()
        made.start_service().ready()
        yield made
    finally:
        made.close()


@pytest.mark.gate("20 s each: a flood, then the quiet time after which it counts as over")
@pytest.mark.parametrize("kind", KINDS)
def test_a_flood_delays_no_frame_and_leaves_nothing_behind(rig: System, kind: str) -> None:
    rig.subscriber.next_frame("front").within(0)
    for _ in range(3):
        assert send_command(rig.broker.port, rig.device, "reload")["ok"]
    held = rig.running.holds["rss_kib"]
    lines = len(rig.log.read_text().splitlines())
    flooder = Flooder(rig.broker.port, rig.device, kind, SECONDS)
    try:
        rig.running.manager.wait("flood of messages on edgemeta/flooded/cmd/reload")
        sent = flooder.wait(SECONDS + 60)
    finally:
        flooder.close()
    rig.subscriber.next_frame("front").within(0)
    updates = rig.log.read_text().splitlines()[lines:]
    assert sent > SECONDS * FLOOD_ABOVE, "the machine is too slow for a flood"
    assert sum("flood of messages on edgemeta/flooded/cmd/reload: " in line for line in updates) == 1
    assert len(updates) < 40, "\n".join(updates[:60])
    wait_until(lambda: rig.running.holds["rss_kib"] < held + GROWTH_KIB, "memory to be given back", 30)
    wait_until(lambda: "flood of messages on edgemeta/flooded/cmd/reload has ended" in rig.log.read_text(), "its end")
    assert send_command(rig.broker.port, rig.device, "reload", transaction="after")["transaction"] == "after"
    assert rig.subscriber.stats["broker"]["connects"] == 1
    assert rig.subscriber.audit.historical == 0
    rig.settle()
    assert rig.lost()["frames"] == 0
    wait_until(lambda: "flood" not in rig.running.manager.status, "the status to tell of no flood")
    assert "Traceback" not in rig.log.read_text()
    assert rig.running.stop()[1] == 0
    assert rig.log.read_text().splitlines()[-1].endswith("stopped")


@pytest.mark.parametrize("kind", KINDS)
def test_the_flooders_packets_are_whole(kind: str) -> None:
    packets, count = block(kind, "d")
    at = found = 0
    while at < len(packets):
        length = shift = 0
        at += 1
        while True:
            length |= (packets[at] & 0x7F) << shift
            shift, at = shift + 7, at + 1
            if packets[at - 1] < 0x80:
                break
        at, found = at + length, found + 1
    assert (at, found) == (len(packets), count)


@pytest.mark.gate("40 s: an acceptance program in its short form")
def test_the_benchmark_says_what_it_measured(repository: Path) -> None:
    """Not how late frames are: that hangs on the machine."""
    if not Mosquitto.installed():
        pytest.skip("mosquitto is not installed (Debian package mosquitto)")
    command = [sys.executable, str(repository / "reliability" / "command_flood.py")]
    options = ["--seconds", "2", "--kind", KINDS[0]]
    ended = subprocess.run([*command, *options], capture_output=True, text=True, timeout=200, check=False)
    assert ended.stdout, ended.stderr
    outcome = json.loads(ended.stdout)
    flood = outcome["floods"][KINDS[0]]
    assert outcome["lost"] == dict.fromkeys(outcome["lost"], 0)
    assert outcome["exit_code"] == 0
    assert flood["messages_per_second"] > FLOOD_ABOVE
    assert flood["frames"] > 0
    assert (ended.returncode != 0) == bool(ended.stderr)
