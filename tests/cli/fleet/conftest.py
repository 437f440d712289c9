"""A real broker, devices that speak the protocol only, and the command as a process."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rig.broker import Mosquitto
from rig.protocol_device import ProtocolDevice

CLI = str(Path(sys.executable).with_name("edgemeta"))


@pytest.fixture
def device() -> Iterator[Callable[..., ProtocolDevice]]:
    made: list[ProtocolDevice] = []

    def make(
        name: str, broker: Mosquitto, result: Callable[[str], str | None] = lambda _: "done", **more: Any
    ) -> ProtocolDevice:
        made.append(ProtocolDevice(name, broker.port, result, **more))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., "subprocess.Popen[str]"]:
    """Starts `edgemeta fleet`, with its journal in the test's folder."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "operator"))

    def start(*words: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [CLI, "fleet", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path
        )

    return start
