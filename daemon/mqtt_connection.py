"""One connection to the broker, from the first packet to the last: paho-mqtt driven by its caller's thread.

A new paho client is made for every connection, so nothing is left of a broken one: what the broker has not acknowledged
is the outbox's business.
"""

import select
import socket
import time

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from edgemeta.daemon.config import MqttConfig
from edgemeta.daemon.outbox import Outgoing
from edgemeta.daemon.secret import password_of
from edgemeta.model.errors import EdgemetaError

WINDOW = 20
"""Greatest number of unacknowledged messages; a broker may ask for fewer."""

ANSWER_TIMEOUT = 10.0
"""Seconds the broker has to accept or refuse a connection."""


class LinkError(EdgemetaError):
    """A connection that could not be made, was refused or broke, with the reason in words."""


class Connection:
    """One MQTT connection. All methods are called by one thread."""

    def __init__(self, config: MqttConfig, client_id: str, will: Outgoing) -> None:
        self._config = config
        self._place = f"{config.host}:{config.port}"
        self._sent: dict[int, Outgoing] = {}
        self._settled: list[tuple[int, bool]] = []
        self._answer: ReasonCode | None = None
        self._lost: str | None = None
        self._window = WINDOW
        self._client = paho.Client(
            CallbackAPIVersion.VERSION2,
            client_id=client_id,
            protocol=paho.MQTTv5 if config.version == 5 else paho.MQTTv311,
            reconnect_on_failure=False,
        )
        self._client.max_inflight_messages_set(0)  # the window is kept here
        self._client.will_set(will.topic, will.payload, will.qos, will.retain)
        self._client.on_connect = self._on_connect
        self._client.on_disconnect = self._on_disconnect
        self._client.on_publish = self._on_publish

    def open(self) -> None:
        """Connect and wait for the broker's answer. Raises LinkError unless the broker accepted."""
        if self._config.username is not None:
            self._client.username_pw_set(self._config.username, password_of(self._config))
        try:
            self._client.connect(self._config.host, self._config.port, self._config.keepalive)
        except (OSError, UnicodeError) as error:  # UnicodeError: a host name that IDNA cannot encode
            reason = getattr(error, "strerror", None) or error
            raise LinkError(f"broker {self._place} cannot be reached: {reason}") from error
        deadline = time.monotonic() + ANSWER_TIMEOUT
        while self._answer is None and self._lost is None:
            if time.monotonic() > deadline:
                raise LinkError(f"broker {self._place} gave no answer within {ANSWER_TIMEOUT:g} s")
            self._exchange(None, timeout=0.5)
        if self._answer is None:
            raise LinkError(f"broker {self._place} closed the connection before it answered")
        if self._answer.is_failure:
            raise LinkError(f"broker {self._place} refused the connection: {str(self._answer).lower()}")

    @property
    def has_room(self) -> bool:
        """Whether one more message may be in flight."""
        return len(self._sent) < self._window

    @property
    def in_flight(self) -> int:
        """Number of messages the broker has not answered yet."""
        return len(self._sent)

    def publish(self, message: Outgoing) -> None:
        """Send a message; `step` tells when the broker has answered it."""
        information = self._client.publish(message.topic, message.payload, message.qos, message.retain)
        self._sent[information.mid] = message

    def step(self, wake: socket.socket, timeout: float) -> list[tuple[Outgoing, bool]]:
        """Wait for the network or a byte on `wake`, and move packets.

        Returns the messages the broker has answered, True where it took them (at QoS 0: when they were written). Raises
        LinkError where the connection broke.
        """
        if not self._settled:
            self._exchange(wake, timeout)
        answered = [(self._sent.pop(mid), taken) for mid, taken in self._settled]
        self._settled.clear()
        if self._lost is not None and not answered:
            raise LinkError(f"connection to broker {self._place} lost: {self._lost}")
        return answered

    def close(self, politely: bool) -> None:
        """Leave: with a DISCONNECT, so that the broker keeps the will to itself, or by dropping the connection."""
        self._client.on_disconnect = None
        if politely:
            self._client.disconnect()
            deadline = time.monotonic() + 1.0
            while self._client.socket() is not None and time.monotonic() < deadline:
                self._exchange(None, timeout=0.1)
        connection = self._client.socket()
        if connection is not None:
            connection.close()

    def _exchange(self, wake: socket.socket | None, timeout: float) -> None:
        """Wait, then read and write what is ready, and let paho look after the keepalive."""
        connection = self._client.socket()
        if connection is None:
            self._lost = self._lost or "closed"
            return
        watched = select.poll()
        watched.register(connection.fileno(), select.POLLIN | (select.POLLOUT if self._client.want_write() else 0))
        if wake is not None:
            watched.register(wake.fileno(), select.POLLIN)
        ready = dict(watched.poll(timeout * 1000))
        if wake is not None and wake.fileno() in ready:
            wake.recv(4096)
        if ready.get(connection.fileno(), 0) & ~select.POLLOUT:
            self._client.loop_read()
        if self._client.want_write():
            self._client.loop_write()
        self._client.loop_misc()

    def _on_connect(
        self,
        _client: paho.Client,
        _userdata: object,
        _flags: paho.ConnectFlags,
        reason: ReasonCode,
        extra: Properties | None,
    ) -> None:
        self._window = min(WINDOW, getattr(extra, "ReceiveMaximum", WINDOW))
        self._answer = reason

    def _on_disconnect(
        self,
        _client: paho.Client,
        _userdata: object,
        _flags: paho.DisconnectFlags,
        reason: ReasonCode,
        _extra: Properties | None,
    ) -> None:
        self._lost = str(reason).lower()

    def _on_publish(
        self, _client: paho.Client, _userdata: object, mid: int, reason: ReasonCode, _extra: Properties
    ) -> None:
        self._settled.append((mid, not reason.is_failure))
