"""One connection to the broker, from the first packet to the last: paho-mqtt driven by its caller's thread.

A new paho client is made for every connection, so nothing is left of a broken one: what the broker has not acknowledged
is the outbox's business.
"""

import logging
import select
import socket
import ssl
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from edgemeta.daemon.config.broker import MqttConfig
from edgemeta.daemon.config.secrets import password_of, username_of
from edgemeta.daemon.messages.broker_state import BrokerState
from edgemeta.daemon.messages.encoding import as_historical
from edgemeta.daemon.mqtt.in_flight import InFlight
from edgemeta.daemon.mqtt.outbox.delivery import Delivery, OutgoingMessage
from edgemeta.daemon.mqtt.paho_client import Client, PackedProperties
from edgemeta.daemon.mqtt.state import CLOSED, LinkError, loss, refusal
from edgemeta.daemon.mqtt.subscriptions import LONGEST, Incoming
from edgemeta.daemon.mqtt.tls import TlsError, alert, context_of, handshake_failure

log = logging.getLogger(__name__)

WINDOW = 100
"""Greatest number of unacknowledged messages; a broker may ask for fewer."""

LIVE_SHARE = 4
"""One in so many places of the window is for live messages only."""

ANSWER_TIMEOUT = 10.0
"""Seconds the broker has to accept or refuse a connection."""

LOOK_AFTER_EVERY = 0.2
"""Seconds after which paho looks again whether a ping is due."""

SOCKET_ENDED = "Unspecified error"
"""What paho says where it was no packet that ended the connection, but the socket."""

LARGEST_PACKET = LONGEST + 4096
"""Bytes of a packet that a broker of MQTT 5 may send us: the longest payload, its topic and properties."""

UNACKNOWLEDGED = 16
"""Messages of QoS 1 that a broker of MQTT 5 may send us before we have acknowledged them."""


class Ready(NamedTuple):
    """What a wait found: bytes to read, room to write."""

    readable: bool = False
    writable: bool = False


class Connection:
    """One MQTT connection. One thread at a time calls its methods, but `wait` may go on beside the others.

    A byte on `wake` ends the waiting. `acknowledged`: whether the broker has acknowledged any message yet. `refused`:
    topic filters that it does not let us subscribe to.
    """

    def __init__(self, config: MqttConfig, client_id: str, will: OutgoingMessage, wake: socket.socket) -> None:
        self._config = config
        self._wake = wake
        self._client_id = client_id
        self._place = f"{config.host}:{config.port}"
        self._speaks_5 = config.version == 5
        self._messages = InFlight[Delivery]()
        self._subscriptions = InFlight[str]()
        self.acknowledged = False
        self.refused: set[str] = set()
        self._settled: list[tuple[int, bool]] = []
        self._answer: ReasonCode | None = None
        self._lost: str | None = None
        self._window = WINDOW
        self._watched = select.poll()
        self._watched.register(wake, select.POLLIN)
        self._descriptor = -1
        self._writing = False
        self._is_here = False  # bytes that are read or decrypted already, of which no poll tells
        self._looked_after = 0.0
        self._faults = _LastFault()
        self._client = Client(
            CallbackAPIVersion.VERSION2,
            client_id=client_id,
            protocol=paho.MQTTv5 if self._speaks_5 else paho.MQTTv311,
            reconnect_on_failure=False,
        )
        self._client.max_inflight_messages_set(0)  # the window is kept here
        self._client.will_set(will.topic, will.payload, will.qos, will.retain)
        self._client.enable_logger(self._faults.logger)
        self._client.on_connect = self._on_connect
        self._client.on_disconnect = self._on_disconnect
        self._client.on_publish = self._on_publish
        self._client.on_subscribe = self._on_subscribe
        self._expiring = (
            None if config.message_expiry_interval is None else PackedProperties(config.message_expiry_interval)
        )

    def open(self) -> None:
        """Connect and wait for the broker's answer. Raises LinkError unless the broker accepted, SecretError."""
        username = username_of(self._config)
        if username is not None:
            self._client.username_pw_set(username, password_of(self._config))
        try:
            self._connect()
        except TlsError as error:
            raise LinkError(BrokerState.BAD_CERTIFICATE, str(error)) from error
        except ssl.SSLError as error:
            raise handshake_failure(self._place, error) from error
        except (OSError, UnicodeError) as error:  # UnicodeError: a host name that IDNA cannot encode
            reason = getattr(error, "strerror", None) or error
            raise LinkError(BrokerState.UNREACHABLE, f"broker {self._place} cannot be reached: {reason}") from error
        deadline = time.monotonic() + ANSWER_TIMEOUT
        while self._answer is None and self._lost is None:
            if time.monotonic() > deadline:
                raise LinkError(
                    BrokerState.UNREACHABLE, f"broker {self._place} gave no answer within {ANSWER_TIMEOUT:g} s"
                )
            self._move(self.wait(0.5))
        if self._answer is None:
            raise alert(self._place, self._faults.text) or LinkError(
                BrokerState.UNREACHABLE, f"broker {self._place} closed the connection before it answered"
            )
        if self._answer.is_failure:
            raise refusal(self._place, self._answer)

    def subscribe(self, topic_filters: Sequence[str], receive: Callable[[Incoming], None]) -> None:
        """Ask the broker for what is published on these topics from now on; `receive` is called within `step`."""
        self._client.on_message = lambda _client, _userdata, message: receive(_incoming(message))
        for topic_filter in topic_filters:
            self._client.unwanted.discard(topic_filter.encode())
            self._ask(topic_filter, qos=1)

    def read_retained(self, topic_filter: str, receive: Callable[[Incoming], None]) -> None:
        """Subscribe to topics whose retained messages are wanted; those come to `receive`, and to nobody else."""
        self._client.message_callback_add(topic_filter, lambda _client, _userdata, message: receive(_incoming(message)))
        self._ask(topic_filter, qos=0)  # a burst is not to wait for our acknowledgements

    def unsubscribe(self, topic_filter: str) -> None:
        """End a subscription."""
        self._client.unsubscribe(topic_filter)

    @property
    def unanswered(self) -> Collection[str]:
        """Topic filters whose subscription the broker has not answered yet."""
        return self._subscriptions.waiting

    def _ask(self, topic_filter: str, qos: int) -> None:
        _, mid = self._client.subscribe(topic_filter, qos)
        if mid is not None:
            self._subscriptions.add(mid, topic_filter)

    def unsubscribe_flooded(self, topic: str) -> None:
        """End the subscription of a topic that is flooded; of what is on its way little is handed on."""
        self.unsubscribe(topic)
        self._client.unwanted.add(topic.encode())

    def passed_over(self) -> dict[str, int]:
        """Return how many messages on unsubscribed topics were not handed on, by topic, since the last call."""
        counts, self._client.passed_over = self._client.passed_over, Counter()
        return {topic.decode(): count for topic, count in counts.items()}

    def _connect(self) -> None:
        """Reach the broker and send the first packet. Raises TlsError, OSError, UnicodeError."""
        context = context_of(self._config.tls) if self._config.tls.enabled else None
        if context is not None:
            self._client.tls_set_context(context)
        limits: Properties | None = None
        if self._speaks_5:
            limits = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
            limits.MaximumPacketSize = LARGEST_PACKET
            limits.ReceiveMaximum = UNACKNOWLEDGED
        try:
            self._client.connect(self._config.host, self._config.port, self._config.keepalive, properties=limits)
        except (OSError, UnicodeError):
            if context is not None:
                context.close_last()
            raise
        connection = self._client.socket()
        if connection is not None:  # else it broke at once
            self._descriptor = connection.fileno()
            self._watched.register(self._descriptor, select.POLLIN)

    @property
    def has_room(self) -> bool:
        """Whether one more message may be in flight."""
        return len(self._messages) < self._window

    @property
    def has_room_for_late(self) -> bool:
        """Whether one more late message may be in flight, and live ones still find room."""
        return len(self._messages) < self._window - self._window // LIVE_SHARE

    @property
    def in_flight(self) -> int:
        """Number of messages the broker has not answered yet."""
        return len(self._messages)

    @property
    def overdue(self) -> float:
        """Seconds that the broker owes its next acknowledgement, of a message or a subscription."""
        return max(self._messages.overdue, self._subscriptions.overdue)

    def publish(self, delivery: Delivery) -> None:
        """Send a message; `step` tells when the broker has answered it.

        A late one is marked, and never becomes its topic's retained message: it tells of the past.
        """
        message = delivery.message
        retain = message.retain and not delivery.late
        payload = as_historical(message.payload) if delivery.late else message.payload
        information = self._client.publish(message.topic, payload, message.qos, retain, self._properties(message))
        self._messages.add(information.mid, delivery)

    def _properties(self, message: OutgoingMessage) -> Properties | None:
        """Return what goes beside a message in MQTT 5: when it expires, and the mark of its question."""
        if not self._speaks_5:
            return None
        if message.correlation is not None:
            return PackedProperties(
                None if message.retain else self._config.message_expiry_interval, message.correlation
            )
        return None if message.retain else self._expiring

    @property
    def all_written(self) -> bool:
        """Whether whoever waits may go on waiting: no packet half written, nothing settled, no loss to be told."""
        return self._client.socket() is not None and not self._client.want_write() and not self._settled

    def wait(self, timeout: float) -> Ready:
        """Wait for the network or a byte on the wake; tell `step` what may be done."""
        if self._client.socket() is None or self._settled:
            return Ready()
        if self._client.want_write() != self._writing:
            self._writing = not self._writing
            self._watched.modify(self._descriptor, select.POLLIN | (select.POLLOUT if self._writing else 0))
        readable, writable = self._is_here, False
        for descriptor, event in self._watched.poll(0 if readable else timeout * 1000):
            if descriptor == self._descriptor:
                readable, writable = readable or event != select.POLLOUT, bool(event & select.POLLOUT)
            else:
                self._wake.recv(4096)
        return Ready(readable, writable)

    def step(self, ready: Ready) -> list[tuple[Delivery, bool]]:
        """Move packets, and let paho look after the keepalive.

        Returns the messages the broker has answered, True where it took them (at QoS 0: when they were written). Raises
        LinkError where the connection broke.
        """
        self._move(ready)
        answered = [
            (delivery, taken) for mid, taken in self._settled if (delivery := self._messages.take(mid)) is not None
        ]
        self._settled.clear()
        self.acknowledged = self.acknowledged or any(delivery.message.qos for delivery, _ in answered)
        if self._lost is not None and not answered:
            raise alert(self._place, self._faults.text) or loss(self._place, self._client_id, self._lost)
        return answered

    def close(self, politely: bool) -> None:
        """Leave: with a DISCONNECT, so that the broker keeps the will to itself, or by dropping the connection."""
        self._client.on_disconnect = None
        if politely:
            self._client.disconnect()
            deadline = time.monotonic() + 1.0
            while self._client.socket() is not None and time.monotonic() < deadline:
                self._move(self.wait(0.1))
        connection = self._client.socket()
        if connection is not None:
            connection.close()

    def _move(self, ready: Ready) -> None:
        connection = self._client.socket()
        if connection is None:
            self._lost = self._lost or CLOSED
            return
        try:
            if ready.readable:
                self._client.loop_read()
                connection = self._client.socket()
                if isinstance(connection, socket.socket):
                    # The kernel would keep its acknowledgement for our next message, and the broker its next answer
                    # for that acknowledgement: after one stall every answer would come a frame late.
                    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
            if ready.writable:
                self._client.loop_write()
            if time.monotonic() - self._looked_after > LOOK_AFTER_EVERY:
                self._looked_after = time.monotonic()
                self._client.loop_misc()
            decrypted = isinstance(connection, ssl.SSLSocket) and connection.pending() > 0
            self._is_here = self._client.has_read or decrypted
        except Exception as error:  # noqa: BLE001 - paho's decoders raise many kinds at bytes that are no MQTT
            self._lost = f"the broker sent what is no MQTT packet ({type(error).__name__})"

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
        flags: paho.DisconnectFlags,
        reason: ReasonCode,
        _extra: Properties | None,
    ) -> None:
        said = flags.is_disconnect_packet_from_server or str(reason) != SOCKET_ENDED
        self._lost = str(reason) if said else self._faults.why_the_socket_ended

    def _on_publish(
        self, _client: paho.Client, _userdata: object, mid: int, reason: ReasonCode, _extra: Properties
    ) -> None:
        self._settled.append((mid, not reason.is_failure))

    def _on_subscribe(
        self, _client: paho.Client, _userdata: object, mid: int, reasons: list[ReasonCode], _extra: Properties | None
    ) -> None:
        topic_filter = self._subscriptions.take(mid)
        if topic_filter is not None and any(reason.is_failure for reason in reasons):
            self.refused.add(topic_filter)
            log.warning("the broker refuses to let us hear %s: %s", topic_filter, str(reasons[0]).lower())


def _incoming(message: paho.MQTTMessage) -> Incoming:
    return Incoming(
        message.topic,
        bytes(message.payload),
        message.retain,
        getattr(message.properties, "ResponseTopic", None),
        getattr(message.properties, "CorrelationData", None),
    )


class _LastFault(logging.Handler):
    """Keeps what paho logs when reading fails: it tells nobody else the TLS alert that ended a connection."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.text = ""
        self._error: OSError | None = None
        self.logger = logging.Logger("paho", logging.ERROR)
        self.logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.text = record.getMessage()
        self._error = next((each for each in record.args or () if isinstance(each, OSError)), None)

    @property
    def why_the_socket_ended(self) -> str:
        """The system's words for a network error, CLOSED where the other side has closed the connection."""
        if self._error is None or isinstance(self._error, ConnectionError | ssl.SSLEOFError | ssl.SSLZeroReturnError):
            return CLOSED
        return self._error.strerror or str(self._error)
