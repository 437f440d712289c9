"""Subscribers beside the broker: one that keeps everything, and one that looks at what the broker has retained."""

import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

from rig.ledger import Ledger
from rig.patience import PATIENCE, RigError

SAID = ("+", "+/frame", "+/state", "+/event", "+/status", "resp/+")
"""Topics of a device on which the service speaks; what is said to it may be a flood."""


class FirstFrame:
    """Waits for the next live frame message of one camera."""

    def __init__(self) -> None:
        self.came = threading.Event()
        self.moment = 0.0

    def within(self, began: float, seconds: float = PATIENCE) -> float:
        """Wait for it; return the seconds since the moment `began`. Raises RigError."""
        if not self.came.wait(seconds):
            raise RigError(f"waited {seconds:g} s for a frame")
        return self.moment - began


class Witness:
    """Keeps account of one device. It is back before the network is whole, so it sees all that the broker takes.

    `watch`, if set, is called with camera and moment of each live frame.
    """

    def __init__(self, port: int, device: str) -> None:
        self._base = f"edgemeta/{device}/"
        self._lock = threading.Lock()
        self._awaited: dict[str, list[FirstFrame]] = {}
        self.subscribed = threading.Event()
        self.ledger = Ledger()
        self.stats: dict[str, Any] = {}
        self.since: Counter[str] = Counter()
        self.watch: Callable[[str, float], None] | None = None
        self._client = paho.Client(CallbackAPIVersion.VERSION2)
        self._client.reconnect_delay_set(0.05, 0.05)
        topics = [(self._base + topic, 0) for topic in SAID]
        self._client.on_connect = lambda client, *_: client.subscribe(topics)
        self._client.on_subscribe = lambda *_: self.subscribed.set()
        self._client.on_disconnect = lambda *_: self.subscribed.clear()
        self._client.on_message = self._on_message
        self._client.connect("127.0.0.1", port, keepalive=3600)  # a broker that was frozen must not throw it out
        self._client.loop_start()
        if not self.subscribed.wait(PATIENCE):
            raise RigError("the subscriber could not subscribe")

    def next_frame(self, camera: str) -> FirstFrame:
        """Begin to wait for a camera's next live frame."""
        awaited = FirstFrame()
        with self._lock:
            self._awaited.setdefault(camera, []).append(awaited)
        return awaited

    def _on_message(self, _client: paho.Client, _userdata: object, message: paho.MQTTMessage) -> None:
        now = time.monotonic()
        topic = message.topic.removeprefix(self._base)
        if message.retain:  # a copy that the broker kept
            return
        with self._lock:
            self.since[topic] += 1
            camera, _, kind = topic.partition("/")
            if topic == "stats":
                self.stats = json.loads(message.payload)
            elif kind in ("frame", "state", "event"):
                content = json.loads(message.payload)
                self.ledger.take(kind, camera, content)
                if kind == "frame" and not content["historical"]:
                    self._tell(camera, now)

    def _tell(self, camera: str, now: float) -> None:
        if self.watch is not None:
            self.watch(camera, now)
        for awaited in self._awaited.pop(camera, []):
            awaited.moment = now
            awaited.came.set()

    def close(self) -> None:
        """Leave."""
        self._client.disconnect()
        self._client.loop_stop()


def retained(port: int) -> dict[str, bytes]:
    """What the broker gives to somebody who subscribes now: topic to payload. Raises RigError."""
    found: dict[str, bytes] = {}
    done = threading.Event()
    end = f"rig/{time.monotonic_ns()}"

    def on_message(_client: paho.Client, _userdata: object, message: paho.MQTTMessage) -> None:
        if message.topic == end:
            done.set()
        elif message.retain:
            found[message.topic] = message.payload

    client = paho.Client(CallbackAPIVersion.VERSION2)
    client.on_connect = lambda client, *_: client.subscribe("#", qos=0)
    client.on_subscribe = lambda client, *_: client.publish(end)  # comes after all that was retained
    client.on_message = on_message
    client.connect("127.0.0.1", port)
    client.loop_start()
    try:
        if not done.wait(PATIENCE):
            raise RigError("the broker does not tell what it retains")
    finally:
        client.disconnect()
        client.loop_stop()
    return found
