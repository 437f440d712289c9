"""Updates of the model from the registry: a real service, a real broker, `edgemeta model get`, a server on loopback."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rig.command_client import send_command
from tests.daemon.conftest import Daemon, Subscriber
from tests.toolchain.known.offered import NAME, Offered, offered_network

pytestmark = pytest.mark.gate("5 s each: a service, and an import in a process of its own")

FETCHED_WITHIN = 300.0
"""Seconds. The import is a process that gives way to all others: on a busy machine it has little of the processor."""


@pytest.fixture
def offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Offered]:
    with offered_network(tmp_path / "offered") as found:
        for name, value in found.variables.items():
            monkeypatch.setenv(name, value)
        yield found


@pytest.fixture
def start(
    offered: Offered, broker: Any, write_config: Callable[..., Path], run_daemon: Callable[..., Daemon], tmp_path: Path
) -> Callable[..., Daemon]:
    """Starts a service that uses what the entry gave before."""

    def run(updates: str = "download", **swap: Any) -> Daemon:
        models = tmp_path / "models"
        models.mkdir()
        (models / "small.safetensors").write_bytes(offered.earlier)
        swap = {"model_folder": str(models), "updates": updates, "shadow_frames": 2, "trial_frames": 2} | swap
        mqtt = {"host": "127.0.0.1", "port": broker.port}
        keys = {"model": str(models / "small.safetensors"), "mqtt": mqtt, "swap": swap}
        return run_daemon(write_config(**keys, homeassistant={"enabled": True}))

    return run


def shown(subscriber: Subscriber, **expected: Any) -> dict[str, Any]:
    """Wait for settings with these values."""
    message = subscriber.wait_for(
        "front/settings", lambda message: all(message.json[key] == value for key, value in expected.items())
    )
    return dict(message.json)


def progress(settings: dict[str, Any]) -> bool:
    return bool(settings["update"]["in_progress"])


def install(broker: Any, **fields: Any) -> dict[str, Any]:
    return send_command(broker.port, "test", "model", FETCHED_WITHIN, model=NAME, update=True, **fields)


def test_an_update_is_announced_fetched_tried_and_kept(
    start: Callable[..., Daemon], offered: Offered, broker: Any, subscriber: Subscriber, tmp_path: Path
) -> None:
    daemon, new = start(), offered.network.digest
    subscriber.wait("front/frame", 1)
    said = shown(subscriber, available_sha256=new)
    assert said["update"] == {
        "summary": "five things. Licence: MIT. Measured: all right.",
        "url": "https://github.com/somebody/things",
        "in_progress": False,
        "percentage": None,
        "failed": None,
    }
    answer = install(broker)
    assert answer["ok"], answer
    last = subscriber.wait_for("front/settings", lambda m: m.json["model_sha256"] == new and not progress(m.json))
    assert last.json["update"] == said["update"]
    assert any(progress(each.json) for each in subscriber.on("front/settings"))
    assert last.json["available_sha256"] == offered.network.digest
    assert (tmp_path / "models" / "small.safetensors").read_bytes() == offered.model
    assert f"model small: fetching it from {offered.network.file.address}" in daemon.said
    first = last.json["boot"]
    send_command(broker.port, "test", "restart")
    again = subscriber.wait_for("front/settings", lambda m: m.json["boot"] != first).json
    assert (again["model_sha256"], again["model"]) == (offered.network.digest, NAME)


@pytest.mark.parametrize(
    ("swap", "breaks", "reason"),
    [
        ({}, True, "the file is no longer there (404 Not Found)"),
        ({"update_timeout": 0.2}, False, "not done within `swap.update_timeout`, 0.2 s"),
        ({"min_agreement": 1}, False, "0% of 2 frames got the same label"),
        ({"updates": "known"}, False, "`swap.updates` is `known`, expected `download`, or: edgemeta model get small"),
    ],
)
def test_what_fails_leaves_the_running_model_and_its_file(
    start: Callable[..., Daemon],
    offered: Offered,
    broker: Any,
    subscriber: Subscriber,
    tmp_path: Path,
    swap: dict[str, Any],
    breaks: bool,
    reason: str,
) -> None:
    daemon = start(**swap)
    if breaks:
        offered.server.files.clear()
    subscriber.wait("front/frame", 1)
    before = shown(subscriber, available_sha256=offered.network.digest)["model_sha256"]
    answer = install(broker)
    assert not answer["ok"]
    assert reason in answer["outcome"]
    said = subscriber.wait_for("front/settings", lambda m: m.json["update"]["failed"] is not None).json
    assert reason in said["update"]["failed"]
    assert (said["update"]["in_progress"], said["model_sha256"]) == (False, before)
    assert "model small is not updated: " in daemon.said
    assert (tmp_path / "models" / "small.safetensors").read_bytes() == offered.earlier
    assert [each.name for each in (tmp_path / "models").iterdir()] == ["small.safetensors"]


def test_a_network_that_is_not_here_is_fetched_when_it_is_chosen(
    start: Callable[..., Daemon], offered: Offered, broker: Any, subscriber: Subscriber, tmp_path: Path
) -> None:
    start()
    subscriber.wait("front/frame", 1)
    (tmp_path / "models" / "small.safetensors").rename(tmp_path / "models" / "mine.safetensors")
    assert send_command(broker.port, "test", "model", model="mine")["ok"]
    assert shown(subscriber, model="mine")["update"]["summary"] is None
    assert send_command(broker.port, "test", "model", FETCHED_WITHIN, model=NAME)["ok"]
    assert shown(subscriber, model=NAME, model_sha256=offered.network.digest)
