"""`edgemeta run` as a process, with a real broker and a real subscriber."""

import hashlib
import json
import resource
import shutil
import signal
import time
from collections import Counter
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any

import cv2
import jsonschema
import numpy as np
import pytest
import yaml
from click.testing import CliRunner

from edgemeta.cli.service import run
from edgemeta.daemon.topics import ANSWER, CHANNELS, SWAP
from edgemeta.model.zoo import find

SCHEMAS = {"reload": "answer"}
"""Schemas that are not called as the last level of their topic."""


def broker_keys(broker: Any, **keys: Any) -> dict[str, Any]:
    return {"host": "127.0.0.1", "port": broker.port, "retry": {"first": 0.1, "cap": 0.5}} | keys


def assert_every_frame_accounted_for(frames: list[dict[str, Any]], from_the_first: bool = True) -> None:
    """Before the first and between any two messages exactly those frames are missing that the counts account for."""

    def missing(frame: dict[str, Any]) -> int:
        return int(sum(frame["dropped"].values()) + frame["withheld"])

    if from_the_first:
        assert frames[0]["sequence"] - 1 == missing(frames[0])
    for before, after in pairwise(frames):
        assert after["sequence"] - before["sequence"] - 1 == missing(after) - missing(before)


def test_a_folder_of_pictures_from_first_to_last(
    broker: Any, subscriber: Any, write_config: Any, colours: Path, run_daemon: Any, repository: Path
) -> None:
    """Everything that is sent, against the schemas in docs/schema; a command for a swap that is refused at its end."""
    keys: dict[str, Any] = {
        "cameras": {"front": {"source": str(colours), "fps": 4}},
        "mqtt": broker_keys(broker),
        "state": {"agree": 1, "window": 1},
        "swap": {"watch": False},
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
    assert [event["lasted_s"] for event in events] == [None, pytest.approx(0.25, abs=0.2), pytest.approx(0.25, abs=0.2)]
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
    assert set(checked) == {channel.name for channel in CHANNELS} - {"model_command"}


def test_only_changes_are_published_and_every_frame_is_accounted_for(
    broker: Any, subscriber: Any, write_config: Any, colours: Path, run_daemon: Any
) -> None:
    """A loop of three colours, nine frames each: one frame in nine changes the state, the rest is counted."""
    folder = colours.parent / "slowly"
    folder.mkdir()
    for number in range(27):
        shutil.copy(colours / f"{number // 9}.png", folder / f"{number:02}.png")
    daemon = run_daemon(
        write_config(
            cameras={"front": {"source": str(folder), "fps": 100, "loop": True}},
            mqtt=broker_keys(broker),
            publish={"frames": "change", "heartbeat": 3600.0},
            labels={"red": "warm", "green": "cold", "blue": "cold"},
        )
    )
    subscriber.wait("front/frame", 6)
    assert daemon.stop() == 0
    subscriber.wait_for("availability", lambda message: message.payload == b"offline")
    frames = [message.json for message in subscriber.on("front/frame")]
    assert_every_frame_accounted_for(frames)
    events = [message.json for message in subscriber.on("front/event")]
    assert [frame["sequence"] for frame in frames] == [1, *(event["sequence"] for event in events)]
    assert [event["state"] for event in events] == (["warm", "cold"] * len(events))[: len(events)]
    last = subscriber.on("stats")[-1].json["cameras"]["front"]
    assert last["captured"] == last["published"] + last["withheld"] + sum(last["dropped"].values())
    assert last["withheld"] > 5 * last["published"]
    assert last["state"] == events[-1]["state"]


def test_publishing_on_change_begins_and_ends_by_a_reload_and_no_frame_is_unaccounted_for(
    broker: Any, subscriber: Any, write_config: Any, colours: Path, run_daemon: Any
) -> None:
    """One picture again and again: with `change` it is quiet; the camera goes on without a new start."""
    keys = {
        "cameras": {"front": {"source": str(colours / "0.png"), "fps": 100, "loop": True}},
        "mqtt": broker_keys(broker),
        "stats": {"period": 0.1},
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


def test_retain_flags_and_topics_are_those_of_the_table(
    broker: Any, make_subscriber: Any, write_config: Any, run_daemon: Any
) -> None:
    """A subscriber that comes late gets what is retained, and nothing else at once."""
    run_daemon(write_config(mqtt=broker_keys(broker, base="site/hall"), state={"agree": 1, "window": 1}))
    early = make_subscriber(broker.port)
    early.wait("front/state")
    early.wait("stats")
    late = make_subscriber(broker.port)
    for channel in (channel for channel in CHANNELS if not channel.received and channel not in (ANSWER, SWAP)):
        topic = channel.address.format(base="site/hall", device="test", camera="front")
        first = late.wait(topic.removeprefix("site/hall"))[0]
        assert first.topic == topic
        assert first.retained == channel.retain


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


def test_without_a_broker_it_runs_and_finds_the_broker_later(
    make_broker: Any, make_subscriber: Any, write_config: Any, run_daemon: Any
) -> None:
    broker = make_broker()
    daemon = run_daemon(write_config(mqtt=broker_keys(broker)))
    wait_for_line(daemon, "cannot be reached: Connection refused; next try in")
    wait_for_line(daemon, "camera front: running")
    broker.start()
    subscriber = make_subscriber(broker.port)
    frames = [message.json for message in subscriber.wait("front/frame", 5)]
    assert_every_frame_accounted_for(sorted(frames, key=itemgetter("sequence")), from_the_first=False)
    assert subscriber.wait("info")[0].json["cameras"] == ["front"]


def test_after_a_broker_outage_frames_come_late_and_retained_messages_again(
    broker: Any, make_subscriber: Any, write_config: Any, run_daemon: Any
) -> None:
    daemon = run_daemon(write_config(mqtt=broker_keys(broker), state={"agree": 1, "window": 1}))
    before = make_subscriber(broker.port)
    before.wait("front/frame", 5)
    broker.stop()
    wait_for_line(daemon, "Connection refused")
    broker.start()
    after = make_subscriber(broker.port)
    after.wait_for("front/frame", lambda message: message.json["historical"])
    after.wait_for("front/frame", lambda message: not message.json["historical"])
    for topic in ("info", "front/status", "front/state", "availability"):
        after.wait(topic)
    assert daemon.stop() == 0


def test_a_full_disk_is_told_and_loses_no_message(
    broker: Any, make_subscriber: Any, write_config: Any, run_daemon: Any, tmp_path: Path
) -> None:
    """The kernel refuses to let files grow beyond 4 kB, less than a commit takes: messages wait in memory meanwhile."""
    config = write_config(mqtt=broker_keys(broker) | {"outbox": {"folder": str(tmp_path / "state")}})
    broker.stop()
    daemon = run_daemon(config)
    resource.prlimit(daemon.process.pid, resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
    wait_for_line(daemon, "messages are kept in memory, the newest 8 MB")
    assert f"outbox file {tmp_path / 'state' / 'outbox-test.sqlite3'} cannot be used: " in daemon.said
    broker.start()
    subscriber = make_subscriber(broker.port)
    wait_for_line(daemon, "connected to broker")
    stats = subscriber.wait_for("test/stats", lambda message: message.json["outbox"]["place"] == "memory").json
    assert "cannot be used" in stats["outbox"]["reason"]
    assert stats["broker"]["failures"]["unreachable"] > 0
    assert "Connection refused" in stats["broker"]["last_failure"]
    resource.prlimit(daemon.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    subscriber.wait_for("test/stats", lambda message: message.json["outbox"]["place"] == "disk", timeout=60)
    subscriber.wait_for("test/stats", lambda message: message.json["outbox"]["waiting"] < 3, timeout=60)
    assert daemon.stop() == 0
    subscriber.wait_for("availability", lambda message: message.payload == b"offline")
    frames = {m.json["sequence"]: m.json for m in subscriber.on("front/frame")}
    assert_every_frame_accounted_for([frames[number] for number in sorted(frames)], from_the_first=False)
    last = subscriber.on("stats")[-1].json["cameras"]["front"]
    assert last["captured"] == last["published"] + sum(last["dropped"].values())


def test_messages_wait_for_the_next_start(
    make_broker: Any, make_subscriber: Any, write_config: Any, run_daemon: Any
) -> None:
    """No broker at all; an end in order, a SIGKILL, and everything comes with the third start."""
    broker = make_broker()
    config = write_config(mqtt=broker_keys(broker))
    first = run_daemon(config)
    wait_for_line(first, "camera front: running")
    time.sleep(0.5)
    assert first.stop() == 0
    second = run_daemon(config)
    wait_for_line(second, "camera front: running")
    time.sleep(0.5)
    second.process.kill()
    second.process.wait()
    broker.start()
    subscriber = make_subscriber(broker.port)
    third = run_daemon(config)
    subscriber.wait_for("test/stats", lambda message: message.json["outbox"]["waiting"] < 3)
    assert third.stop() == 0
    subscriber.wait_for("availability", lambda message: message.payload == b"offline")
    frames = [message.json for message in subscriber.on("front/frame")]
    boots = list(dict.fromkeys(frame["boot"] for frame in frames if frame["historical"]))
    assert len(boots) in (2, 3)  # the third start may have kept a frame until it was connected
    for boot in boots[:2]:
        assert_every_frame_accounted_for([frame for frame in frames if frame["boot"] == boot])
        assert len([frame for frame in frames if frame["boot"] == boot]) > 5


def test_a_wrong_password_is_told_and_tried_again(make_broker: Any, write_config: Any, run_daemon: Any) -> None:
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


def test_a_camera_that_is_not_there_leaves_the_others_running(
    broker: Any, subscriber: Any, write_config: Any, run_daemon: Any, tmp_path: Path, colours: Path
) -> None:
    """It is opened again and again, told once, and comes when it is there."""
    picture = tmp_path / "later.png"
    retry = {"first": 0.05, "cap": 0.1}
    run_daemon(
        write_config(
            cameras={
                "gone": {"source": str(picture), "retry": retry, "loop": True, "fps": 10},
                "device": {"source": 97, "retry": retry},
                "front": {"source": "synthetic://"},
            },
            mqtt=broker_keys(broker),
        )
    )
    failed = subscriber.wait_for("gone/status", lambda message: message.json["status"] == "failed").json
    assert failed["reason"] == f"{picture} is not there, expected an image or a folder of images"
    failed = subscriber.wait_for("device/status", lambda message: message.json["status"] == "failed").json
    assert failed["reason"] == "camera /dev/video97 cannot be opened"
    subscriber.wait("front/frame", 10)
    assert len(subscriber.on("gone/status")) <= 2  # opening, failed: the same fault is told once
    shutil.copy(colours / "0.png", tmp_path / "half.png")
    (tmp_path / "half.png").rename(picture)
    running = subscriber.wait_for("gone/status", lambda message: message.json["status"] == "running").json
    assert running["failures"] >= 1
    assert running["reason"] is None
    assert subscriber.wait("gone/frame")[0].json["sequence"] == 1


def test_a_source_that_breaks_and_returns(
    broker: Any, subscriber: Any, write_config: Any, run_daemon: Any, colours: Path
) -> None:
    picture = colours / "0.png"
    good = picture.read_bytes()
    run_daemon(
        write_config(
            cameras={"front": {"source": str(picture), "loop": True, "fps": 20, "retry": {"first": 0.1, "cap": 0.1}}},
            mqtt=broker_keys(broker),
        )
    )
    subscriber.wait("front/frame", 3)
    replace(picture, good[:60])
    subscriber.wait_for("front/status", lambda message: message.json["status"] == "failed")
    broken_at = len(subscriber.on("front/frame"))
    replace(picture, good)
    subscriber.wait("front/frame", broken_at + 5)
    frames = [message.json for message in subscriber.on("front/frame")]
    assert_every_frame_accounted_for(frames)
    statuses = [message.json["status"] for message in subscriber.on("front/status")]
    assert statuses[-3:] == ["running", "failed", "running"]


def test_an_rtsp_camera_that_dies_and_returns(
    broker: Any, subscriber: Any, write_config: Any, run_daemon: Any, rtsp_server: Any, free_port: Any
) -> None:
    port = free_port()
    server = rtsp_server(port)
    source = {"source": f"rtsp://127.0.0.1:{port}/cam", "timeout": 5, "retry": {"first": 0.2, "cap": 0.5}}
    daemon = run_daemon(write_config(cameras={"front": source}, mqtt=broker_keys(broker)))
    subscriber.wait("front/frame", 10, timeout=60)
    server.kill()
    subscriber.wait_for("front/status", lambda message: message.json["status"] == "failed", timeout=60)
    before = len(subscriber.on("front/frame"))
    rtsp_server(port)
    subscriber.wait("front/frame", before + 10, timeout=60)
    assert_every_frame_accounted_for([message.json for message in subscriber.on("front/frame")])
    assert daemon.stop() == 0  # while frames come: no thread may be torn out of a decoder


def test_pictures_of_unusual_kinds(
    broker: Any, subscriber: Any, write_config: Any, run_daemon: Any, tmp_path: Path
) -> None:
    """1x1, gray, sixteen bits, very wide; a truncated JPEG among them is told and passed by."""
    folder = tmp_path / "pictures"
    folder.mkdir()
    blue = np.full((40, 30, 3), (255, 0, 0), np.uint8)
    cv2.imwrite(str(folder / "1.png"), blue[:1, :1])
    cv2.imwrite(str(folder / "2.png"), np.full((8, 8), 200, np.uint8))
    cv2.imwrite(str(folder / "3.png"), blue.astype(np.uint16) * 257)
    cv2.imwrite(str(folder / "4.jpg"), blue)
    (folder / "4.jpg").write_bytes((folder / "4.jpg").read_bytes()[:200])
    cv2.imwrite(str(folder / "5.png"), np.tile(blue, (1, 100, 1)))
    run_daemon(
        write_config(
            cameras={"front": {"source": str(folder), "fps": 4, "retry": {"first": 0.05, "cap": 0.05}}},
            mqtt=broker_keys(broker),
        )
    )
    failed = subscriber.wait_for("front/status", lambda message: message.json["status"] == "failed")
    assert failed.json["reason"] == f"image {folder / '4.jpg'} is a JPEG cut off after 200 bytes"
    subscriber.wait_for("front/status", lambda message: message.json["status"] == "ended")
    frames = [message.json["labels"] for message in subscriber.wait("front/frame", 4)]
    assert [labels[0]["label"] for labels in frames] == [
        "blue",
        "red",
        "blue",
        "blue",
    ]  # gray is a tie: the first label
    assert frames[1][0]["score"] == frames[1][2]["score"]


def test_the_shipped_config_runs_the_shipped_network(
    broker: Any, subscriber: Any, run_daemon: Any, repository: Path, tmp_path: Path
) -> None:
    config = yaml.safe_load((repository / "configs" / "default.yaml").read_text())
    config["mqtt"]["port"] = broker.port
    config["web"]["port"] = 0  # another program of this machine may have the usual one
    (tmp_path / "c.yaml").write_text(yaml.safe_dump(config))
    run_daemon(tmp_path / "c.yaml")
    frame = subscriber.wait("front/frame", 5)[-1].json
    assert frame["model"]["name"] == "resnet8-cifar10"
    assert frame["model"]["sha256"] == hashlib.sha256(find("resnet8-cifar10").read_bytes()).hexdigest()


def wait_for_line(daemon: Any, text: str) -> None:
    deadline = time.monotonic() + 20
    while text not in daemon.said:
        assert time.monotonic() < deadline, f"waited for {text!r}, the log has:\n{daemon.said}"
        assert daemon.process.poll() is None, daemon.said
        time.sleep(0.01)


def replace(path: Path, content: bytes) -> None:
    """Change a file at once, so that nobody reads it half written."""
    temporary = path.with_name("temporary")
    temporary.write_bytes(content)
    temporary.replace(path)


def test_a_fault_nobody_foresaw_ends_the_service_loudly(
    broker: Any, subscriber: Any, write_config: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker's thread does not die in silence: `offline` is said, the traceback printed, the exit code 1."""

    def broken(*_: object) -> None:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr("edgemeta.daemon.pipeline.Pipeline.step", broken)
    result = CliRunner().invoke(run, [str(write_config(mqtt=broker_keys(broker)))])
    assert (result.exit_code, "planted" in result.output) == (1, True), result.output
    subscriber.wait_for("availability", lambda message: message.payload == b"offline")
