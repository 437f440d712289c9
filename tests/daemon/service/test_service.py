"""`edgemeta run` as a process on a good day, with a real broker and a real subscriber."""

import hashlib
import json
import shutil
import signal
from collections import Counter
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from click.testing import CliRunner

from edgemeta.cli.service import run
from edgemeta.daemon.messages.channels import ANSWER, CHANNELS, SWAP
from edgemeta.model.zoo import DEFAULT, find
from tests.daemon.conftest import assert_every_frame_accounted_for, broker_keys

SCHEMAS = {"reload": "answer"}
"""Schemas that are not called as the last level of their topic."""


def test_a_folder_of_images_from_first_to_last(
    broker: Any, subscriber: Any, write_config: Any, colours: Path, run_daemon: Any, repository: Path
) -> None:
    """Everything that is sent, against the schemas in docs/schema; a command for a swap that is refused at its end."""
    keys: dict[str, Any] = {
        "cameras": {"front": {"source": str(colours), "fps": 0}},
        "mqtt": broker_keys(broker),
        "state": {"min_frames": 1, "window_frames": 1},
        "watch_files": False,
    }
    daemon = run_daemon(write_config(**keys))
    subscriber.wait_for("front/status", lambda message: message.json["status"] == "ended")
    frames = [message.json for message in subscriber.wait("front/frame", 3)]
    assert [frame["labels"][0]["label"] for frame in frames] == ["red", "green", "blue"]
    assert [frame["state"] for frame in frames] == ["red", "green", "blue"]
    assert [frame["sequence"] for frame in frames] == [1, 2, 3]
    assert {frame["backend"] for frame in frames} == {"reference"}
    assert len({frame["boot"] for frame in frames}) == 1
    for frame in frames:
        latency = frame["latency_us"]
        assert latency["total"] >= latency["wait"] + latency["preprocess"] + latency["inference"]
    write_config(**keys, model="away.safetensors")
    subscriber.publish("edgemeta/test/cmd/reload", b"")
    subscriber.wait("test/resp/reload")
    assert daemon.stop() == 0

    assert [m.payload for m in subscriber.wait("availability", 2)] == [b"online", b"offline"]
    assert [m.json["state"] for m in subscriber.on("front/state")] == ["red", "green", "blue"]
    assert [m.json["previous"] for m in subscriber.on("front/state")] == [None, "red", "green"]
    events = [m.json for m in subscriber.on("front/event")]
    assert [(event["previous"], event["state"]) for event in events] == [
        (None, "red"),
        ("red", "green"),
        ("green", "blue"),
    ]
    captured = [datetime.fromisoformat(frame["captured"]) for frame in frames]
    lasted = [(later - earlier).total_seconds() for earlier, later in pairwise(captured)]
    assert [event["lasted_s"] for event in events] == [None, *(pytest.approx(each, abs=0.0011) for each in lasted)]
    assert subscriber.on("front/status")[-1].json["status"] == "stopped"
    last = subscriber.on("stats")[-1].json["cameras"]["front"]
    assert (last["captured"], last["processed"], last["published"]) == (3, 3, 3)
    assert set(last["dropped"].values()) == {0}
    info = subscriber.on("info")[-1].json
    assert info["model"] == frames[0]["model"]
    assert info["labels"] == ["red", "green", "blue"]

    checked = Counter()
    for message in subscriber.received:
        if "/cmd/" in message.topic:
            checked["reload_command"] += 1
            continue
        last = message.topic.rpartition("/")[2]
        kind = SCHEMAS.get(last, last)
        if kind != "availability":
            schema = json.loads((repository / "docs" / "schema" / f"{kind}.schema.json").read_text())
            jsonschema.validate(message.json, schema, format_checker=jsonschema.FormatChecker())
        checked[kind] += 1
    other_commands = {"model_command", "set_command", "restart_command"}
    assert set(checked) == {channel.name for channel in CHANNELS if not channel.by_option} - other_commands


def test_only_changes_are_published_and_every_frame_is_accounted_for(
    broker: Any, subscriber: Any, write_config: Any, colours: Path, run_daemon: Any
) -> None:
    """A loop of three colours, nine frames each: one frame in nine changes the state, the rest is counted.

    As fast as possible: no frame is superseded.
    """
    folder = colours.parent / "slowly"
    folder.mkdir()
    for number in range(27):
        shutil.copy(colours / f"{number // 9}.png", folder / f"{number:02}.png")
    daemon = run_daemon(
        write_config(
            cameras={"front": {"source": str(folder), "fps": 0, "loop": True}},
            mqtt=broker_keys(broker),
            publish={"frames": "change", "heartbeat_interval": 3600.0},
            label_map={"red": "warm", "green": "cold", "blue": "cold"},
        )
    )
    subscriber.wait("front/frame", 6)
    assert daemon.stop() == 0
    subscriber.wait_for("availability", lambda message: message.payload == b"offline")
    frames = [message.json for message in subscriber.on("front/frame")]
    assert_every_frame_accounted_for(frames)
    events = [message.json for message in subscriber.on("front/event")]
    assert [frame["sequence"] for frame in frames[1:]] == [event["sequence"] for event in events]
    assert [event["state"] for event in events] == (["warm", "cold"] * len(events))[: len(events)]
    last = subscriber.on("stats")[-1].json["cameras"]["front"]
    assert last["captured"] == last["published"] + last["withheld"] + sum(last["dropped"].values())
    assert last["withheld"] > 5 * last["published"]
    assert last["state"] == events[-1]["state"]


def test_publishing_on_change_begins_and_ends_by_a_reload_and_no_frame_is_unaccounted_for(
    broker: Any, subscriber: Any, write_config: Any, colours: Path, run_daemon: Any
) -> None:
    """The same image repeatedly: with `change` no frame is published; the camera is not restarted."""
    keys = {
        "cameras": {"front": {"source": str(colours / "0.png"), "fps": 100, "loop": True}},
        "mqtt": broker_keys(broker),
        "stats": {"interval": 0.1},
    }
    daemon = run_daemon(write_config(**keys))
    subscriber.wait("front/frame", 5)
    write_config(**keys, publish={"frames": "change"})
    daemon.process.send_signal(signal.SIGHUP)
    subscriber.wait_for("stats", lambda message: message.json["cameras"]["front"]["withheld"] > 20)
    write_config(**keys)
    daemon.process.send_signal(signal.SIGHUP)
    subscriber.wait("front/frame", len(subscriber.on("front/frame")) + 5)
    assert daemon.stop() == 0
    subscriber.wait_for("availability", lambda message: message.payload == b"offline")
    frames = [message.json for message in subscriber.on("front/frame")]
    assert_every_frame_accounted_for(frames)
    assert frames[-1]["withheld"] > 20
    assert "stopped" not in [message.json["status"] for message in subscriber.on("front/status")][:-1]


@pytest.mark.gate("7 s: every topic of a running service")
def test_retain_flags_and_topics_are_those_of_the_table(
    broker: Any, make_subscriber: Any, write_config: Any, run_daemon: Any
) -> None:
    """A subscriber that comes late gets what is retained, and nothing else at once."""
    run_daemon(
        write_config(mqtt=broker_keys(broker, base_topic="site/hall"), state={"min_frames": 1, "window_frames": 1})
    )
    early = make_subscriber(broker.port)
    early.wait("front/state")
    early.wait("stats")
    late = make_subscriber(broker.port)
    sent = (each for each in CHANNELS if not each.received and not each.by_option and each not in (ANSWER, SWAP))
    for channel in sent:
        topic = channel.address.format(base="site/hall", device="test", camera="front")
        first = late.wait(topic.removeprefix("site/hall"))[0]
        assert first.topic == topic
        assert first.retained == channel.retain


@pytest.mark.gate("4 s: a whole clip")
def test_a_clip_as_fast_as_possible_loses_no_frame(
    broker: Any, subscriber: Any, write_config: Any, run_daemon: Any, shared_data: Path
) -> None:
    clip = shared_data / "video" / "vtest_480x360.avi"
    daemon = run_daemon(write_config(cameras={"clip": {"source": str(clip), "fps": 0}}, mqtt=broker_keys(broker)))
    subscriber.wait_for("clip/status", lambda message: message.json["status"] == "ended")
    subscriber.wait("clip/frame", 795)  # stopped at once, the service would count the last one as `stopped`
    assert daemon.stop() == 0
    subscriber.wait_for("availability", lambda message: message.payload == b"offline")
    assert [message.json["sequence"] for message in subscriber.on("clip/frame")] == list(range(1, 796))
    last = subscriber.on("stats")[-1].json["cameras"]["clip"]
    assert last["captured"] == last["published"] == 795


@pytest.mark.gate("3 s of processor time: the whole clip as fast as possible")
def test_a_clip_faster_than_it_can_be_classified_every_frame_accounted_for(
    broker: Any, subscriber: Any, write_config: Any, run_daemon: Any, shared_data: Path
) -> None:
    """A thousand frames per second are more than the reference backend and decoding allow: many are superseded."""
    clip = shared_data / "video" / "vtest_480x360.avi"
    daemon = run_daemon(write_config(cameras={"clip": {"source": str(clip), "fps": 1000}}, mqtt=broker_keys(broker)))
    subscriber.wait_for("clip/status", lambda message: message.json["status"] == "ended")
    assert daemon.stop() == 0
    subscriber.wait_for("availability", lambda message: message.payload == b"offline")
    frames = [message.json for message in subscriber.on("clip/frame")]
    assert_every_frame_accounted_for(frames)
    last = subscriber.on("stats")[-1].json["cameras"]["clip"]
    assert last["captured"] == 795 == last["published"] + sum(last["dropped"].values())
    assert last["published"] == len(frames)


def test_two_cameras_have_numbers_and_states_of_their_own(
    broker: Any, subscriber: Any, write_config: Any, run_daemon: Any, colours: Path
) -> None:
    run_daemon(
        write_config(
            cameras={
                "red": {"source": str(colours / "0.png"), "loop": True, "fps": 30},
                "blue": {"source": str(colours / "2.png"), "loop": True, "fps": 15},
            },
            mqtt=broker_keys(broker),
        )
    )
    for camera in ("red", "blue"):
        frames = [message.json for message in subscriber.wait(f"{camera}/frame", 15)]
        assert {frame["labels"][0]["label"] for frame in frames} == {camera}
        assert_every_frame_accounted_for(frames)
        assert subscriber.wait(f"{camera}/state")[0].json["state"] == camera


def test_the_shipped_config_runs_the_shipped_model(
    broker: Any, subscriber: Any, run_daemon: Any, repository: Path, tmp_path: Path
) -> None:
    config = yaml.safe_load((repository / "configs" / "default.yaml").read_text())
    config["mqtt"]["port"] = broker.port
    config["web"]["port"] = 0  # another program of this machine may have the usual one
    (tmp_path / "c.yaml").write_text(yaml.safe_dump(config))
    run_daemon(tmp_path / "c.yaml")
    frame = subscriber.wait("front/frame", 5)[-1].json
    assert frame["model"]["name"] == DEFAULT
    assert frame["model"]["sha256"] == hashlib.sha256(find(DEFAULT).read_bytes()).hexdigest()


def test_an_unexpected_error_ends_the_service_with_a_traceback(
    broker: Any, subscriber: Any, write_config: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker's thread does not die in silence: `offline` is said, the traceback printed, the exit code 1."""

    def broken(*_: object) -> None:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr("edgemeta.daemon.inference.pipeline.Pipeline.classify", broken)
    result = CliRunner().invoke(run, [str(write_config(mqtt=broker_keys(broker)))])
    assert (result.exit_code, "planted" in result.output) == (1, True), result.output
    subscriber.wait_for("availability", lambda message: message.payload == b"offline")
