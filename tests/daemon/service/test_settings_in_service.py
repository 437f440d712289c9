"""The commands `set` and `restart` to a real service at a real broker."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rig.command_client import send_command
from rig.square_detector import save_square_detector, write_squares
from rig.waiting import wait_until
from tests.daemon.conftest import DEADLINE, Daemon, Subscriber, wait_for_line

Started = Callable[..., Daemon]


@pytest.fixture
def start(
    broker: Any, write_config: Callable[..., Path], run_daemon: Callable[..., Daemon], tmp_path: Path
) -> Callable[..., Daemon]:
    """Starts a service with a camera `front` that finds one red and one green square."""

    def run(keep: bool = False, swap: dict[str, Any] | None = None, **camera: Any) -> Daemon:
        picture = tmp_path / "squares.png"
        write_squares(picture, {(1, 1): "red", (5, 3): "green"})
        save_square_detector(tmp_path / "squares.safetensors")
        cameras = {"front": {"source": str(picture), "fps": 30, "loop": True, **camera}}
        mqtt = {"host": "127.0.0.1", "port": broker.port, "keep_settings": keep, "max_commands_per_second": 100}
        config = write_config(model=str(tmp_path / "squares.safetensors"), cameras=cameras, mqtt=mqtt, swap=swap or {})
        daemon = run_daemon(config)
        wait_for_line(daemon, "connected to broker")
        return daemon

    return run


def settings(subscriber: Subscriber, **expected: Any) -> dict[str, Any]:
    """Wait for settings with these values."""
    return subscriber.wait_for(
        "front/settings", lambda message: all(message.json[key] == value for key, value in expected.items())
    ).json


def test_a_camera_is_switched_off_and_on(start: Started, broker: Any, subscriber: Subscriber) -> None:
    start()
    subscriber.wait("front/frame", 3)
    assert settings(subscriber, enabled=True)["by_command"] == []
    answer = send_command(broker.port, "test", "set", camera="front", enabled=False, transaction="1")
    assert (answer["ok"], answer["outcome"], answer["transaction"]) == (
        True,
        "settings: applied cameras.front.enabled",
        "1",
    )
    assert settings(subscriber, enabled=False)["by_command"] == ["enabled"]
    status = subscriber.wait_for("front/status", lambda message: message.json["status"] == "disabled").json
    assert (status["reason"], status["problem"]) == (None, False)
    before = len(subscriber.on("front/frame"))
    send_command(broker.port, "test", "set", camera="front", enabled=None)
    subscriber.wait("front/frame", before + 3)
    assert settings(subscriber, enabled=True, by_command=[])


def test_scores_labels_and_rate_apply_to_the_next_frames(start: Started, broker: Any, subscriber: Subscriber) -> None:
    start()
    subscriber.wait_for("front/frame", lambda message: len(message.json["objects"]) == 2)
    assert settings(subscriber)["score"] == pytest.approx(0.4)
    assert send_command(broker.port, "test", "set", labels=["green"], score=0.25, max_fps=5)["ok"]
    subscriber.wait_for("front/frame", lambda message: [each["label"] for each in message.json["objects"]] == ["green"])
    found = settings(subscriber, labels=["green"], score=0.25, max_fps=5)
    assert found["by_command"] == ["max_fps", "score", "labels"]
    rate = subscriber.wait_for("test/stats", lambda message: 0 < message.json["cameras"]["front"]["fps"] < 9)
    assert rate
    assert not subscriber.wait_for("front/status", lambda message: message.json["status"] == "running").json["failures"]
    assert "stopped" not in {each.json["status"] for each in subscriber.on("front/status")}, "the camera was reopened"


WRONG = {
    b"{}": "found nothing to set, expected one of enabled, max_fps, score, labels",
    b'{"camera": "frnt", "enabled": true}': "found camera 'frnt', expected one of front",
    b'{"max_fps": -1}': "max_fps: found -1, expected 0, or 0.001 to 1000",
    b'{"score": 1}': "score: found 1, expected at most 0.999",
    b'{"labels": ["dog"]}': "the label 'dog', which squares does not have, expected labels such as red, green, blue",
    b'{"enabled": "off"}': "enabled: found the text 'off', expected true or false",
}


def test_a_wrong_value_is_answered_with_a_sentence_and_changes_nothing(start: Started, subscriber: Subscriber) -> None:
    start()
    for number, (payload, reason) in enumerate(WRONG.items(), start=1):
        subscriber.publish("edgemeta/test/cmd/set", payload)
        answer = subscriber.wait("resp/set", number)[-1].json
        assert not answer["ok"]
        assert reason in answer["outcome"]
    assert [each.json["by_command"] for each in subscriber.on("front/settings")] == [[]]


@pytest.mark.gate("3 s: the service is started three times")
def test_settings_are_kept_over_reloads_and_restarts_where_the_config_says_so(
    start: Started, broker: Any, subscriber: Subscriber, tmp_path: Path
) -> None:
    daemon = start(keep=True)
    assert send_command(broker.port, "test", "set", camera="front", enabled=False, max_fps=2)["ok"]
    boot = settings(subscriber, max_fps=2)["boot"]
    kept = tmp_path / "state" / "settings-test.json"
    assert json.loads(kept.read_text())["cameras"] == {"front": {"enabled": False, "max_fps": 2}}
    assert kept.stat().st_mode & 0o777 == 0o600
    assert send_command(broker.port, "test", "reload")["outcome"] == "config reloaded: nothing changed"
    assert daemon.stop() == 0
    start(keep=True)
    again = subscriber.wait_for("front/settings", lambda message: message.json["boot"] != boot).json
    assert (again["enabled"], again["max_fps"]) == (False, 2)
    send_command(broker.port, "test", "set", enabled=None, max_fps=None)
    assert json.loads(kept.read_text())["cameras"] == {}


def test_a_reload_gives_up_what_is_not_kept(start: Started, broker: Any, subscriber: Subscriber) -> None:
    start()
    send_command(broker.port, "test", "set", camera="front", enabled=False)
    answer = send_command(broker.port, "test", "reload")
    assert answer["outcome"] == "config reloaded: applied cameras.front.enabled"
    assert settings(subscriber, enabled=True)


def test_a_restart_begins_again_in_the_same_process(start: Started, broker: Any, subscriber: Subscriber) -> None:
    daemon = start()
    first = subscriber.wait("front/frame", 3)[-1].json["boot"]
    answer = send_command(broker.port, "test", "restart")
    assert (answer["ok"], answer["outcome"]) == (True, "restarting")
    subscriber.wait_for("front/frame", lambda message: message.json["boot"] != first)
    assert daemon.process.poll() is None
    wait_until(lambda: subscriber.on("test/availability")[-1].payload == b"online", "the availability")
    os.kill(daemon.process.pid, signal.SIGTERM)
    assert daemon.process.wait(DEADLINE) == 0


def test_a_restart_with_a_mistake_in_the_config_is_refused(
    start: Started, broker: Any, subscriber: Subscriber, tmp_path: Path
) -> None:
    start()
    subscriber.wait("front/frame", 1)
    with (tmp_path / "config.yaml").open("a") as file:
        file.write("\nmodle: x\n")
    answer = send_command(broker.port, "test", "restart")
    assert not answer["ok"]
    assert answer["outcome"].startswith("not restarted: ")
    assert "expected `model`" in answer["outcome"]


def test_a_model_is_swapped_while_its_camera_is_disabled(
    start: Started, broker: Any, subscriber: Subscriber, tmp_path: Path
) -> None:
    """Without frames there is no shadow run and no trial; they would wait for five minutes."""
    (tmp_path / "models").mkdir()
    save_square_detector(tmp_path / "models" / "other.safetensors", ("red", "green", "blue", "grey"))
    start(swap={"model_folder": str(tmp_path / "models")}, enabled=False)
    answer = send_command(broker.port, "test", "model", model="other")
    assert (answer["ok"], answer["outcome"]) == (True, "config reloaded: applied model")
    assert settings(subscriber, model="other")["enabled"] is False
