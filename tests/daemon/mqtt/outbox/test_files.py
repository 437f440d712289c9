"""Where the outbox file lies: the config, systemd, XDG, the home folder, in this order."""

from pathlib import Path
from typing import Any

import pytest

from edgemeta.daemon.config.config import Config
from edgemeta.daemon.mqtt.outbox.files import file_of


def config(**keys: Any) -> Config:
    return Config.model_validate({"device": "gate", "cameras": {"front": {"source": "synthetic://"}}, **keys})


def test_the_first_that_is_given_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "outbox-gate.sqlite3"
    monkeypatch.setenv("HOME", "/home/ali")
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.delenv("STATE_DIRECTORY", raising=False)
    assert file_of(config()) == Path("/home/ali/.local/state/edgemeta") / name
    monkeypatch.setenv("XDG_STATE_HOME", "not/absolute")
    assert file_of(config()) == Path("/home/ali/.local/state/edgemeta") / name
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert file_of(config()) == Path("/state/edgemeta") / name
    monkeypatch.setenv("STATE_DIRECTORY", "/var/lib/edgemeta:/var/lib/other")
    assert file_of(config()) == Path("/var/lib/edgemeta") / name
    assert file_of(config(data_folder="/data")) == Path("/data") / name
    assert file_of(config(data_folder="/data", mqtt={"outbox": {"max_disk_mb": 0}})) is None


def test_a_user_without_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STATE_DIRECTORY", raising=False)
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr("os.getuid", lambda: 4_000_000)
    assert file_of(config()) == Path("/nonexistent/.local/state/edgemeta/outbox-gate.sqlite3")
