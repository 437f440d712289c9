"""A device that only speaks the protocol of rollouts: it says what a device says, takes orders and fetches models."""

import hashlib
import json
import socket
import threading
from collections.abc import Callable, Sequence
from typing import Any
from urllib.request import urlopen

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

from rig.waiting import TIMEOUT, RigError

CHUNK = 49_152
FIRST = {"name": "first", "sha256": "0" * 64}


class ProtocolDevice:
    """result: of each order, by the name of its model, once it is fetched; None says nothing. keys: that may be set."""

    def __init__(
        self, name: str, port: int, result: Callable[[str], str | None], accepts: bool = True, keys: Sequence[str] = ()
    ) -> None:
        self.name, self._result, self._accepts, self._keys = name, result, accepts, list(keys)
        self.values: dict[str, Any] = {}
        self.orders: list[dict[str, Any]] = []
        self._state: dict[str, Any] = {"rollout": None, "sha256": None, "state": "none"}
        self.model = FIRST
        self._parts: dict[int, bytes] = {}
        self._had: set[str] = set()
        self._connected = threading.Event()
        self._client = paho.Client(CallbackAPIVersion.VERSION2)
        self._client.reconnect_delay_set(0.2, 1.0)
        self._client.will_set(f"edgemeta/{name}/availability", "offline", 1, retain=True)
        self._client.on_connect = self._on_connect
        self._client.on_message = self._on_message
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()
        if not self._connected.wait(TIMEOUT):
            raise RigError(f"{name} was not connected within {TIMEOUT:g} s")

    def _on_connect(self, client: paho.Client, *_: object) -> None:
        client.publish(f"edgemeta/{self.name}/availability", "online", 1, retain=True)
        self._say()
        client.subscribe(f"edgemeta/{self.name}/cmd/rollout", 1)
        self._connected.set()

    def _on_message(self, client: paho.Client, _userdata: object, message: paho.MQTTMessage) -> None:
        if message.topic.endswith("/cmd/rollout"):
            order = json.loads(message.payload)
            self.orders.append(order)
            self._begin(client, order)
        elif message.payload:
            self._parts[int(message.topic.rpartition("/")[2])] = message.payload
            self._end_if_whole(client)

    def _begin(self, client: paho.Client, order: dict[str, Any]) -> None:
        model = order["model"]
        if model is None or model["sha256"] in self._had:  # a service keeps the file of the model before, too
            self._end(order)
            return
        self._parts = {}
        self._state = {"rollout": order["rollout"], "sha256": model["sha256"], "state": "fetching"}
        self._say()
        if model["address"] is None:
            client.subscribe(f"edgemeta/.models/{model['sha256']}/+", 1)
            return
        with urlopen(model["address"], timeout=TIMEOUT) as answer:
            self._parts = {0: answer.read()}
        self._end_if_whole(client)

    def _end_if_whole(self, client: paho.Client) -> None:
        order = self.orders[-1]
        model = order["model"]
        whole = b"".join(self._parts[number] for number in sorted(self._parts))
        if model is None or len(whole) != model["size"]:
            return
        client.unsubscribe(f"edgemeta/.models/{model['sha256']}/+")
        if hashlib.sha256(whole).hexdigest() != model["sha256"]:
            raise RigError(f"{self.name}: {model['name']} came with another digest")
        self._had.add(model["sha256"])
        self._end(order)

    def _end(self, order: dict[str, Any]) -> None:
        model = order["model"] or FIRST
        result = self._result(model["name"])
        if result == "done":
            self.model = {"name": model["name"], "sha256": model["sha256"]}
            self.values = order.get("values", {})
        if result is not None:
            sha256 = None if order["model"] is None else model["sha256"]
            self._state = {"rollout": order["rollout"], "sha256": sha256, "state": result, "reason": "planted"}
            self._say()

    def _say(self) -> None:
        rollout = self._state | {"keys": self._keys, "values": self.values} if self._accepts else None
        info = {"version": "1", "model": self.model, "cameras": [], "rollout": rollout}
        self._client.publish(f"edgemeta/{self.name}/info", json.dumps(info), 1, retain=True)

    def lose_files(self) -> None:
        """Have another disk: the models that it has had are gone."""
        self._had.clear()

    def close(self) -> None:
        """End it as a power cut does: the broker says that it is offline."""
        self._client.loop_stop()
        connection = self._client.socket()
        if isinstance(connection, socket.socket):
            connection.close()
        self._client.on_connect = self._client.on_message = None
