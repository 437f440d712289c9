"""The examples for Telegraf and Node-RED: their topics and fields exist, and the real programs take real messages.

Neither program is a Debian package, so those tests are slow ones: `pytest -m slow tests/daemon/mqtt/test_examples.py`
with telegraf (or node-red) on the PATH.
"""

import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from edgemeta.daemon.messages.channels import CHANNELS, Channel
from rig.broker import Mosquitto
from tests.daemon.conftest import Daemon, Subscriber
from tools.surface import of_schema

CONFIGS = Path(__file__).parents[3] / "configs"
TELEGRAF = CONFIGS / "telegraf"
FLOW: list[dict[str, Any]] = json.loads((CONFIGS / "node-red/edgemeta.json").read_text("utf-8"))
BY_TOPIC = {re.sub(r"\{(?!base).*?\}", "+", each.address).format(base="edgemeta"): each for each in CHANNELS}


def names_of(channel: Channel) -> set[str]:
    """The fields of a message, joined as Telegraf does; `*` is any key or item."""
    assert channel.message is not None
    found = of_schema(channel.message.model_json_schema(mode="serialization"), "m")
    return {re.sub(r"\[\d*\]", "_*", name[2:]).replace(".", "_") for name, _ in found}


needs_toml = pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 has no parser of TOML")


def toml(name: str) -> dict[str, Any]:
    content: dict[str, Any] = import_module("tomllib").loads((TELEGRAF / name).read_text("utf-8"))
    return content


@needs_toml
def test_every_measurement_names_topics_and_fields_that_are_published() -> None:
    inputs = toml("edgemeta.conf")["inputs"]["mqtt_consumer"]
    assert {each["name_override"] for each in inputs} == {"edgemeta_event", "edgemeta_state", "edgemeta_stats"}
    for each in inputs:
        (topic,) = each["topics"]
        known = names_of(BY_TOPIC[topic])
        times = [each[key] for key in ("json_time_key",) if key in each]
        for name in (*each["tag_keys"], *each.get("json_string_fields", ()), *times):
            assert name in known, (topic, name)
        for pattern in each["fieldexclude"]:
            assert any(fnmatchcase(name, pattern) for name in known), (topic, pattern)


@needs_toml
def test_the_bridge_to_kafka_takes_events_states_and_statistics() -> None:
    content = toml("kafka.conf")
    (source,) = content["inputs"]["mqtt_consumer"]
    assert {BY_TOPIC[topic].name for topic in source["topics"]} == {"event", "state", "stats"}
    kinds = {rule["topic"].count("/"): rule["tags"].split("/") for rule in source["topic_parsing"]}
    for topic in source["topics"]:
        tags = dict(zip(kinds[topic.count("/")], topic.replace("+", "x").split("/"), strict=True))
        assert (tags["device"], tags["kind"]) == ("x", BY_TOPIC[topic].name)
    (sink,) = content["outputs"]["kafka"]
    assert sink["routing_tag"] == "device"
    assert sink["topic_suffix"]["keys"] == ["kind"]


@needs_toml
@pytest.mark.parametrize("name", sorted(path.name for path in TELEGRAF.iterdir()))
def test_every_file_is_toml_with_inputs_or_outputs(name: str) -> None:
    assert toml(name).keys() & {"inputs", "outputs"}


def test_the_flow_is_wired_and_reads_fields_of_events() -> None:
    nodes = {node["id"]: node for node in FLOW}
    assert len(nodes) == len(FLOW)
    assert {target for node in FLOW for wires in node.get("wires", ()) for target in wires} <= set(nodes)
    (source,) = (node for node in FLOW if node["type"] == "mqtt in")
    channel = BY_TOPIC[source["topic"]]
    known = names_of(channel)
    read = set(re.findall(r"\be\.(\w+(?:\.\w+)?)", nodes["text"]["func"])) | {nodes["live"]["property"][8:]}
    assert {"kind", "object.name", "historical"} <= read
    assert {name.replace(".", "_") for name in read} <= known


@pytest.fixture
def background(tmp_path: Path) -> Iterator[Callable[..., Daemon]]:
    """Starts a program beside the test; it is killed at the end."""
    started: list[Daemon] = []

    def start(*command: object) -> Daemon:
        log = tmp_path / "program.log"
        with log.open("w") as output:
            process = subprocess.Popen([*map(str, command)], stdout=output, stderr=output, text=True, cwd=tmp_path)
        started.append(Daemon(process, log))
        return started[-1]

    yield start
    for daemon in started:
        daemon.process.kill()
        daemon.process.wait()


def program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed ({name})")
    return found


def wait_until(condition: Callable[[], bool], daemon: Daemon, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, daemon.said
        assert daemon.process.poll() is None, daemon.said
        time.sleep(0.1)


@pytest.fixture
def events(
    broker: Mosquitto,
    subscriber: Subscriber,
    run_daemon: Callable[..., Daemon],
    write_config: Callable[..., Path],
    colours: Path,
) -> Callable[[], list[dict[str, Any]]]:
    """Starts a service that sees red, green and blue in turn; returns the events that it has published since."""

    def publish() -> list[dict[str, Any]]:
        camera = {"front": {"source": str(colours), "fps": 5, "loop": True}}
        state = {"min_frames": 1, "window_frames": 1}
        run_daemon(write_config(cameras=camera, state=state, mqtt={"port": broker.port}))
        return [each.json for each in subscriber.wait("/event", 6, timeout=60)]

    return publish


@pytest.mark.slow
def test_node_red_runs_the_flow(
    tmp_path: Path,
    broker: Mosquitto,
    events: Callable[[], list[dict[str, Any]]],
    background: Callable[..., Daemon],
    free_port: Callable[[], int],
) -> None:
    flow = [node | {"port": str(broker.port)} if node["id"] == "broker" else node for node in FLOW]
    (tmp_path / "flow.json").write_text(json.dumps(flow))
    node_red = background(program("node-red"), "--userDir", tmp_path, "--port", free_port(), tmp_path / "flow.json")
    wait_until(lambda: "Connected to broker" in node_red.said, node_red)
    *_, event = events()
    line = f"test front: {event['previous']} -> {event['state']}"
    wait_until(lambda: line in node_red.said, node_red)


@pytest.mark.slow
def test_telegraf_writes_what_is_published(
    tmp_path: Path, broker: Mosquitto, events: Callable[[], list[dict[str, Any]]], background: Callable[..., Daemon]
) -> None:
    telegraf = program("telegraf")
    for path in TELEGRAF.iterdir():
        beside = [] if path.name in ("edgemeta.conf", "kafka.conf") else ["--config", TELEGRAF / "edgemeta.conf"]
        subprocess.run([telegraf, "config", "check", "--config", path, *beside], check=True)
    config = tmp_path / "telegraf.conf"
    written = tmp_path / "written"
    text = (TELEGRAF / "edgemeta.conf").read_text("utf-8").replace(":1883", f":{broker.port}").replace('"5s"', '"1s"')
    config.write_text(f'{text}\n[[outputs.file]]\nfiles = ["{written}"]\ndata_format = "json"\n')
    running = background(telegraf, "--config", config)
    wait_until(lambda: running.said.count("Connected [") == 3, running)
    *_, event = events()

    def measured(name: str) -> list[dict[str, Any]]:
        lines = written.read_text().splitlines() if written.exists() else []
        return [row for row in map(json.loads, lines) if row["name"] == name]

    wait_until(lambda: all(measured(f"edgemeta_{kind}") for kind in ("event", "state", "stats")), running)
    wait_until(lambda: any(row["fields"]["state"] == event["state"] for row in measured("edgemeta_event")), running)
    assert measured("edgemeta_event")[0]["tags"] == {"device": "test", "camera": "front", "kind": "state"}
