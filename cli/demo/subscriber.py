"""An ordinary MQTT subscriber: all messages of a device, in order, with the time of arrival."""

import queue
import threading
from datetime import datetime, timezone
from types import TracebackType

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from edgemeta.cli.demo.errors import DemoError
from edgemeta.cli.demo.tally import Arrival

TIMEOUT_S = 10.0


class Subscriber:
    """Subscribed to `topics` as long as the `with` block lasts. Raises DemoError if the broker does not answer."""

    def __init__(self, host: str, port: int, topics: str) -> None:
        self._host, self._port, self._topics = host, port, topics
        self._inbox: queue.SimpleQueue[Arrival] = queue.SimpleQueue()
        self._subscribed = threading.Event()
        self._client = mqtt.Client(CallbackAPIVersion.VERSION2, client_id="edgemeta-demo-view")
        self._client.on_connect = self._on_connect
        self._client.on_subscribe = self._on_subscribe
        self._client.on_message = self._on_message

    def __enter__(self) -> "Subscriber":
        self._client.connect(self._host, self._port)
        self._client.loop_start()
        if not self._subscribed.wait(TIMEOUT_S):
            raise DemoError(f"the demo's broker did not accept a subscriber within {TIMEOUT_S:.0f} seconds")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.disconnect()
        self._client.loop_stop()

    def next(self, timeout: float) -> Arrival | None:
        """Return the next message, None after `timeout` seconds without one."""
        try:
            return self._inbox.get(timeout=timeout)
        except queue.Empty:
            return None

    def _on_connect(
        self,
        client: mqtt.Client,
        userdata: object,
        flags: mqtt.ConnectFlags,
        reason: ReasonCode,
        properties: Properties | None,
    ) -> None:
        client.subscribe(self._topics, qos=1)

    def _on_subscribe(
        self,
        client: mqtt.Client,
        userdata: object,
        mid: int,
        reasons: list[ReasonCode],
        properties: Properties | None,
    ) -> None:
        self._subscribed.set()

    def _on_message(self, client: mqtt.Client, userdata: object, message: mqtt.MQTTMessage) -> None:
        self._inbox.put(Arrival(message.topic, bytes(message.payload), datetime.now(timezone.utc)))
