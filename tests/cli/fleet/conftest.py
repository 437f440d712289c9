"""A real broker, devices that speak the protocol only, and the command as a process."""

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from rig.broker import Mosquitto

CLI = str(Path(sys.executable).with_name("edgemeta"))


@pytest.fixture
def make_broker(tmp_path: Path) -> Iterator[Callable[..., Mosquitto]]:
    if not Mosquitto.installed():
        pytest.skip("mosquitto is not installed (Debian package mosquitto)")
    made: list[Mosquitto] = []

    def make(*lines: str) -> Mosquitto:
        made.append(Mosquitto(tmp_path, lines) if lines else Mosquitto(tmp_path))
        made[-1].start()
        return made[-1]

    yield make
    for each in made:
        each.stop()


@pytest.fixture
def broker(make_broker: Callable[..., Mosquitto]) -> Mosquitto:
    return make_broker()


class ProtocolDevice:
    """Says what a device says, and takes orders. result: of each order, by the name of its model; None says nothing."""

    def __init__(self, name: str, port: int, result: Callable[[str], str | None], accepts: bool = True) -> None:
        self.name, self._result, self._accepts = name, result, accepts
        self.orders: list[dict[str, Any]] = []
        self._state: dict[str, Any] = {"rollout": None, "sha256": None, "state": "none"}
        self._model = {"name": "first", "sha256": "0" * 64}
        self._connected = threading.Event()
        self._client = paho.Client(CallbackAPIVersion.VERSION2)
        self._client.reconnect_delay_set(0.1, 0.1)
        self._client.will_set(f"edgemeta/{name}/availability", "offline", 1, retain=True)
        self._client.on_connect = self._on_connect
        self._client.on_message = self._on_message
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()
        assert self._connected.wait(20)

    def _on_connect(self, client: paho.Client, *_: object) -> None:
        client.publish(f"edgemeta/{self.name}/availability", "online", 1, retain=True)
        self._say()
        client.subscribe(f"edgemeta/{self.name}/cmd/rollout", 1)
        self._connected.set()

    def _on_message(self, _client: paho.Client, _userdata: object, message: paho.MQTTMessage) -> None:
        order = json.loads(message.payload)
        self.orders.append(order)
        model = order["model"] or {"name": "first", "sha256": "0" * 64}
        result = self._result(model["name"])
        if result == "done":
            self._model = {"name": model["name"], "sha256": model["sha256"]}
        if result is not None:
            sha256 = None if order["model"] is None else model["sha256"]
            self._state = {"rollout": order["rollout"], "sha256": sha256, "state": result, "reason": "planted"}
            self._say()

    def _say(self) -> None:
        rollout = self._state if self._accepts else None
        info = {"version": "1", "model": self._model, "cameras": [], "rollout": rollout}
        self._client.publish(f"edgemeta/{self.name}/info", json.dumps(info), 1, retain=True)

    def close(self) -> None:
        """End it as a power cut does: the broker says that it is offline."""
        self._client.loop_stop()
        connection = self._client.socket()
        if connection is not None:
            connection.close()
        self._client.on_connect = self._client.on_message = None


@pytest.fixture
def device() -> Iterator[Callable[..., ProtocolDevice]]:
    made: list[ProtocolDevice] = []

    def make(
        name: str, broker: Mosquitto, result: Callable[[str], str | None] = lambda _: "done", accepts: bool = True
    ) -> ProtocolDevice:
        made.append(ProtocolDevice(name, broker.port, result, accepts))
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
