"""Subscribers at the broker: one that records all messages, and one that reads the retained ones."""

import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

from rig.message_audit import MessageAudit
from rig.waiting import TIMEOUT, RigError

TOPICS = ("+", "+/frame", "+/state", "+/event", "+/status", "resp/+")
"""Topics on which the service publishes; commands are left out, as they may be a flood."""


class NextFrame:
    """Waits for the next live frame message of one camera."""

    def __init__(self) -> None:
        self.came = threading.Event()
        self.received_at = 0.0

    def within(self, began: float, seconds: float = TIMEOUT) -> float:
        """Wait for it; return the seconds since `began` (monotonic). Raises RigError."""
        if not self.came.wait(seconds):
            raise RigError(f"waited {seconds:g} s for a frame")
        return self.received_at - began


class RecordingSubscriber:
    """Records the messages of one device. It reconnects before the network is restored, so it misses none.

    `watch`, if set, is called with camera and time (monotonic) of each live frame.
    """

    def __init__(self, port: int, device: str) -> None:
        self._base = f"edgemeta/{device}/"
        self._lock = threading.Lock()
        self._awaited: dict[str, list[NextFrame]] = {}
        self.subscribed = threading.Event()
        self.audit = MessageAudit()
        self.stats: dict[str, Any] = {}
        self.since: Counter[str] = Counter()
        self.watch: Callable[[str, float], None] | None = None
        self._client = paho.Client(CallbackAPIVersion.VERSION2)
        self._client.reconnect_delay_set(0.05, 0.05)
        topics = [(self._base + topic, 0) for topic in TOPICS]
        self._client.on_connect = lambda client, *_: client.subscribe(topics)
        self._client.on_subscribe = lambda *_: self.subscribed.set()
        self._client.on_disconnect = lambda *_: self.subscribed.clear()
        self._client.on_message = self._on_message
        self._client.connect("127.0.0.1", port, keepalive=3600)  # a broker that was frozen must not disconnect it
        self._client.loop_start()
        if not self.subscribed.wait(TIMEOUT):
            raise RigError("the subscriber could not subscribe")

    def next_frame(self, camera: str) -> NextFrame:
        """Start to wait for a camera's next live frame."""
        awaited = NextFrame()
        with self._lock:
            self._awaited.setdefault(camera, []).append(awaited)
        return awaited

    def _on_message(self, _client: paho.Client, _userdata: object, message: paho.MQTTMessage) -> None:
        now = time.monotonic()
        topic = message.topic.removeprefix(self._base)
        if message.retain:  # a retained copy
            return
        with self._lock:
            self.since[topic] += 1
            camera, _, kind = topic.partition("/")
            if topic == "stats":
                self.stats = json.loads(message.payload)
            elif kind in ("frame", "state", "event"):
                content = json.loads(message.payload)
                self.audit.take(kind, camera, content)
                if kind == "frame" and not content["historical"]:
                    self._notify(camera, now)

    def _notify(self, camera: str, now: float) -> None:
        if self.watch is not None:
            self.watch(camera, now)
        for awaited in self._awaited.pop(camera, []):
            awaited.received_at = now
            awaited.came.set()

    def close(self) -> None:
        """Disconnect."""
        self._client.disconnect()
        self._client.loop_stop()


def retained(port: int) -> dict[str, bytes]:
    """Return the broker's retained messages: topic to payload. Raises RigError."""
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
    client.on_subscribe = lambda client, *_: client.publish(end)  # arrives after all retained messages
    client.on_message = on_message
    client.connect("127.0.0.1", port)
    client.loop_start()
    try:
        if not done.wait(TIMEOUT):
            raise RigError("the broker did not send its retained messages")
    finally:
        client.disconnect()
        client.loop_stop()
    return found
