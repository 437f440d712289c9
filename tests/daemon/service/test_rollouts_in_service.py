"""Orders of a rollout: a real service, a real broker, a file server on loopback, and parts at the broker."""

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgemeta.daemon.messages.rollouts import CHUNK
from edgemeta.model.file import save
from edgemeta.model.signature import make_key, sign
from edgemeta.model.tasks import Classification
from rig.command_client import send_command
from rig.waiting import wait_until
from tests.daemon.conftest import (
    Daemon,
    Subscriber,
    assert_every_frame_accounted_for,
    broker_keys,
    colour_model,
    wait_for_line,
)
from tests.toolchain.known.file_server import Served, serving

pytestmark = pytest.mark.gate("3 to 10 s each: services that start again, a download in a process of its own")


@pytest.fixture
def files() -> Iterator[Served]:
    with serving() as server:
        yield server


@pytest.fixture
def start(broker: Any, write_config: Callable[..., Path], run_daemon: Callable[..., Daemon]) -> Callable[..., Daemon]:
    def run(rollouts: str = "install", swap: dict[str, Any] | None = None, **keys: Any) -> Daemon:
        swap = {"rollouts": rollouts, "shadow_frames": 2, "trial_frames": 2} | (swap or {})
        mqtt = broker_keys(broker) | {"max_commands_per_second": 1000}  # an order follows another one at once
        return run_daemon(write_config(mqtt=mqtt, swap=swap, **keys))

    return run


def model_bytes(folder: Path, name: str, labels: tuple[str, ...] = ("red", "green", "blue")) -> bytes:
    file = folder / f"{name}.safetensors"
    save(replace(colour_model(), name=name, task=Classification(labels)), file)
    return file.read_bytes()


def wanted(name: str, content: bytes, **more: Any) -> dict[str, Any]:
    return {"name": name, "sha256": hashlib.sha256(content).hexdigest(), "size": len(content), **more}


def order(subscriber: Subscriber, model: dict[str, Any] | None, rollout: str = "one", device: str = "test") -> None:
    content = {"rollout": rollout, "device": device, "model": model}
    subscriber.publish("edgemeta/test/cmd/rollout", json.dumps(content).encode(), retain=True)


def give_parts(subscriber: Subscriber, content: bytes) -> None:
    digest = hashlib.sha256(content).hexdigest()
    for number, first in enumerate(range(0, len(content), CHUNK)):
        subscriber.publish(f"edgemeta/.models/{digest}/{number}", content[first : first + CHUNK], retain=True)


def progress(settings: dict[str, Any]) -> bool:
    return bool(settings["update"]["in_progress"])


def state(subscriber: Subscriber, wanted: str, rollout: str = "one", boot: str | None = None) -> dict[str, Any]:
    """Wait for an info message with this state of the rollout."""

    def is_it(message: Any) -> bool:
        said = message.json["rollout"]
        return (said["state"], said["rollout"]) == (wanted, rollout) and message.json["boot"] != boot

    return dict(subscriber.wait_for("test/info", is_it).json)


def test_a_model_is_fetched_tried_and_used_after_a_restart_and_given_back(
    start: Callable[..., Daemon], files: Served, subscriber: Subscriber, broker: Any, tmp_path: Path
) -> None:
    daemon, new = start(), model_bytes(tmp_path, "new")
    files.files["/new"] = new
    first = subscriber.wait("front/frame", 1)[0].json["model"]
    model = wanted("new", new, address=f"{files.address}/new")
    order(subscriber, model)
    info = state(subscriber, "done")
    assert (info["model"]["name"], info["model"]["sha256"]) == ("new", model["sha256"])
    assert subscriber.on("front/settings")[-1].json["model"] == "new"
    send_command(broker.port, "test", "restart")
    again = state(subscriber, "done", boot=info["boot"])
    assert again["model"]["sha256"] == model["sha256"]
    order(subscriber, None, "two")
    back = state(subscriber, "done", "two")
    assert back["model"] == first
    assert_every_frame_accounted_for([m.json for m in subscriber.on("front/frame") if m.json["boot"] == info["boot"]])
    order(subscriber, model, "three")
    state(subscriber, "done", "three")
    assert len(files.asked) == 1, "going back and forth needs no network"
    assert daemon.process.poll() is None


def test_parts_come_by_the_broker_also_after_its_restart(
    start: Callable[..., Daemon], subscriber: Subscriber, broker: Any, tmp_path: Path
) -> None:
    start()
    new = model_bytes(tmp_path, "parts")
    subscriber.wait("front/frame", 1)
    order(subscriber, wanted("parts", new))
    state(subscriber, "fetching")
    broker.stop()
    broker.start()
    subscriber.wait("front/frame", len(subscriber.on("front/frame")) + 5)
    order(subscriber, wanted("parts", new))
    give_parts(subscriber, new)
    assert state(subscriber, "done")["model"]["name"] == "parts"


@pytest.mark.parametrize(
    ("swap", "keys", "content", "reason"),
    [
        ({}, {}, None, "the file is no longer there (404 Not Found)"),
        ({}, {}, b"no model at all", "new.safetensors"),
        ({"max_slowdown": 1e-6}, {}, b"", "expected at most 1e-06 times as long"),
        ({}, {"cameras": {"front": {"source": "synthetic://", "model": "resnet8-cifar10"}}}, b"", "a model of its own"),
    ],
)
def test_what_fails_is_said_and_not_tried_again(
    start: Callable[..., Daemon],
    files: Served,
    subscriber: Subscriber,
    broker: Any,
    tmp_path: Path,
    swap: dict[str, Any],
    keys: dict[str, Any],
    content: bytes | None,
    reason: str,
) -> None:
    start(swap=swap, **keys)
    new = model_bytes(tmp_path, "new") if content == b"" else content
    if new is not None:
        files.files["/new"] = new
    subscriber.wait("front/frame", 1)
    model = wanted("new", new or b"gone", address=f"{files.address}/new")
    order(subscriber, model)
    info = state(subscriber, "failed")
    assert reason in info["rollout"]["reason"]
    assert info["model"]["sha256"] != model["sha256"]
    asked = len(files.asked)
    order(subscriber, model)
    send_command(broker.port, "test", "restart")
    again = state(subscriber, "failed", boot=info["boot"])
    assert again["rollout"]["reason"] == info["rollout"]["reason"]
    assert len(files.asked) == asked


def test_an_order_for_another_device_or_with_a_mistake_is_refused(
    start: Callable[..., Daemon], subscriber: Subscriber, tmp_path: Path
) -> None:
    start()
    subscriber.wait("front/frame", 1)
    new = model_bytes(tmp_path, "new")
    order(subscriber, wanted("new", new), device="other")
    answer = subscriber.wait("resp/rollout", 1)[-1].json
    assert (answer["ok"], answer["outcome"]) == (False, "found an order for the device 'other', expected 'test'")
    order(subscriber, wanted("new", new, address="file:///etc/passwd"))
    answer = subscriber.wait("resp/rollout", 2)[-1].json
    assert "model.address: found the text 'file:///etc/passwd', expected" in answer["outcome"]
    order(subscriber, wanted("../new", new))
    assert "model.name" in subscriber.wait("resp/rollout", 3)[-1].json["outcome"]
    assert subscriber.on("test/info")[-1].json["rollout"]["state"] == "none"


def test_by_default_no_order_is_read(start: Callable[..., Daemon], subscriber: Subscriber, tmp_path: Path) -> None:
    start("refuse")
    order(subscriber, wanted("new", model_bytes(tmp_path, "new")))
    subscriber.wait("front/frame", 10)
    assert subscriber.on("test/info")[-1].json["rollout"] is None
    assert subscriber.on("resp/rollout") == []


def test_a_signature_comes_with_the_order_where_keys_are_trusted(
    start: Callable[..., Daemon], subscriber: Subscriber, model_file: Path, tmp_path: Path
) -> None:
    public, new = make_key(tmp_path / "maker.pem"), model_bytes(tmp_path, "new")
    model_file.with_name("colour.safetensors.sig").write_bytes(sign(model_file.read_bytes(), tmp_path / "maker.pem"))
    start(trust={"public_key_files": [str(public)]})
    subscriber.wait("front/frame", 1)
    give_parts(subscriber, new)
    order(subscriber, wanted("new", new))
    assert "has no signature" in state(subscriber, "failed")["rollout"]["reason"]
    order(subscriber, wanted("new", new, signature="00" * 64), "two")
    assert "not a signature of this file" in state(subscriber, "failed", "two")["rollout"]["reason"]
    order(subscriber, wanted("new", new, signature=sign(new, tmp_path / "maker.pem").hex()), "three")
    assert state(subscriber, "done", "three")["model"]["name"] == "new"


def test_what_is_offered_waits_for_somebody_who_installs_it_in_home_assistant(
    start: Callable[..., Daemon], subscriber: Subscriber, broker: Any, tmp_path: Path
) -> None:
    start("offer", homeassistant={"enabled": True})
    new = model_bytes(tmp_path, "new")
    subscriber.wait("front/frame", 1)
    give_parts(subscriber, new)
    order(subscriber, wanted("new", new))
    state(subscriber, "offered")
    said = subscriber.wait_for("front/settings", lambda m: m.json["available_sha256"] == wanted("new", new)["sha256"])
    assert said.json["update"]["summary"] == "Of the rollout one."
    entity = subscriber.wait_for("edgemeta-test/config", lambda m: True).json["cmps"]["update"]
    install = json.loads(entity["payload_install"])
    assert send_command(broker.port, "test", "model", **install)["ok"]
    assert state(subscriber, "done")["model"]["name"] == "new"

    def is_installed(message: Any) -> bool:
        said = message.json
        return said["model"] == "new" and said["available_sha256"] == said["model_sha256"] and not progress(said)

    subscriber.wait_for("front/settings", is_installed)


def test_values_are_used_at_once_and_after_a_restart_until_they_are_given_back(
    start: Callable[..., Daemon], subscriber: Subscriber, broker: Any
) -> None:
    daemon = start(swap={"rollout_keys": ["state", "top_k", "label_map"]}, state={"enter_score": 0.6})
    first = subscriber.wait("front/frame", 1)[0].json

    def values(values: dict[str, Any], rollout: str, wanted: str, boot: str | None = None) -> dict[str, Any]:
        content = {"rollout": rollout, "device": "test", "model": None, "values": values}
        subscriber.publish("edgemeta/test/cmd/rollout", json.dumps(content).encode(), retain=True)
        return state(subscriber, wanted, rollout, boot)

    given = {"top_k": 1, "state.enter_score": 0.7}
    info = values(given, "one", "done")
    assert (info["rollout"]["values"], info["rollout"]["keys"]) == (given, ["state", "top_k", "label_map"])
    subscriber.wait_for("front/frame", lambda m: len(m.json["labels"]) == 1)
    assert len(first["labels"]) == 3
    send_command(broker.port, "test", "restart")
    again = state(subscriber, "done", "one", boot=info["boot"])
    assert again["rollout"]["values"] == given
    for number, (wrong, sentence) in enumerate(
        [
            ({"top_k": 0}, "top_k: found 0, expected at least 1"),
            ({"state.enter_score": "high"}, "state.enter_score: found the text 'high', expected a number"),
            ({"state.least": 1}, "state.least: found an unknown key, expected"),
            ({"state.leave_score": 0.9}, "`leave_score` (0.9) no greater than `enter_score` (0.6)"),
            ({"label_map": {"purple": "x"}}, "label_map.purple: found the label 'purple', which"),
            ({"mqtt.host": "there"}, "mqtt.host: found a value for it, expected only keys of `swap.rollout_keys`"),
        ]
    ):
        said = values(wrong, f"wrong-{number}", "failed")
        assert sentence in said["rollout"]["reason"]
        assert said["rollout"]["values"] == given
    assert values({}, "back", "done")["rollout"]["values"] == {}
    wait_until(lambda: len(subscriber.on("front/frame")[-1].json["labels"]) == 3, "frames with the config's values")
    assert daemon.process.poll() is None
    mine = [m.json for m in subscriber.on("front/frame") if m.json["boot"] == again["boot"]]
    assert_every_frame_accounted_for(mine)


def test_a_service_that_is_killed_while_it_tries_a_model_tries_it_again_three_times(
    start: Callable[..., Daemon], subscriber: Subscriber, tmp_path: Path
) -> None:
    keys = {"cameras": {"front": {"source": "synthetic://", "fps": 1}}}
    new = model_bytes(tmp_path, "new")
    give_parts(subscriber, new)
    order(subscriber, wanted("new", new))
    boots: list[str] = []
    for _ in range(3):
        daemon = start(swap={"shadow_frames": 1000}, **keys)
        found = subscriber.wait_for(
            "test/info", lambda m: (m.json["rollout"] or {}).get("state") == "trying" and m.json["boot"] not in boots
        )
        boots.append(found.json["boot"])
        wait_for_line(daemon, "rollout")
        daemon.process.kill()
        daemon.process.wait()
    start(swap={"shadow_frames": 1000}, **keys)
    reason = state(subscriber, "failed")["rollout"]["reason"]
    assert reason == "the service ended 3 times while it was tried"
