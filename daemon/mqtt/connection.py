"""One connection to the broker, from the first packet to the last: paho-mqtt, driven by its caller's thread.

Every connection has a new paho client, so nothing is left over from a broken one: what the broker has not acknowledged
waits in the outbox.
"""

import select
import socket
import ssl
import time
from collections.abc import Sequence
from contextlib import suppress
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
from edgemeta.daemon.mqtt.answers import ACCEPTED, Answer, Outcome, answer_of, blames_packet
from edgemeta.daemon.mqtt.closing import explanation
from edgemeta.daemon.mqtt.in_flight import InFlight, Window
from edgemeta.daemon.mqtt.limits import BrokerLimits
from edgemeta.daemon.mqtt.outbox.delivery import Delivery, OutgoingMessage
from edgemeta.daemon.mqtt.paho_client import (
    NO_PROPERTIES,
    BufferedClient,
    LastError,
    PackedProperties,
    PacketTooLargeError,
)
from edgemeta.daemon.mqtt.state import CLOSED, LinkError, UnansweredError, closed, loss, refusal
from edgemeta.daemon.mqtt.subscriber import Subscriber
from edgemeta.daemon.mqtt.subscriptions import LONGEST
from edgemeta.daemon.mqtt.suspects import Suspect, Suspects, key_of, message_sent
from edgemeta.daemon.mqtt.tls import TlsError, alert, context_of, handshake_failure
from edgemeta.daemon.mqtt.trials import Trials
from edgemeta.daemon.mqtt.wakeup import Wakeup
from edgemeta.daemon.runtime.awake import AWAKE
from edgemeta.daemon.runtime.clock import NS

ANSWER_TIMEOUT = 10.0
"""Seconds the broker has to accept or refuse a connection."""

KEEPALIVE_CHECK_EVERY = 0.2
"""Seconds between two checks whether a ping is due."""

SOCKET_ENDED = "Unspecified error"
"""Reason that paho gives where the socket ended the connection, not a packet."""

LARGEST_PACKET = LONGEST + 4096
"""Bytes of a packet that a broker may send us: the longest payload, its topic and properties."""

UNSENT_BYTES = 8_192
"""Bytes that may wait in the kernel: megabytes would be many seconds on a slow line, and count as sent at QoS 0."""

UNACKNOWLEDGED = 16
"""Messages of QoS 1 that a broker of MQTT 5 may send us before we have acknowledged them."""


class Ready(NamedTuple):
    """Result of a wait: whether there are bytes to read, and room to write."""

    readable: bool = False
    writable: bool = False


class Connection:
    """One MQTT connection. Only one thread calls its methods; `wakeup`, which any thread may set, ends its `wait`.

    limits: what the broker takes; before its answer, what it is assumed to. acknowledged: whether the broker has
    acknowledged any message yet. subscriber: its subscriptions. suspects: what is tried alone, or left out.
    """

    def __init__(
        self,
        config: MqttConfig,
        client_id: str,
        will: OutgoingMessage,
        wakeup: Wakeup,
        limits: BrokerLimits,
        suspects: Suspects,
    ) -> None:
        self._config = config
        self._wakeup = wakeup
        self._client_id = client_id
        self._broker = f"{config.host}:{config.port}"
        self._speaks_5 = config.version == 5
        self._messages = InFlight[Delivery]()
        self._trials = Trials(suspects)
        self.acknowledged = False
        self.limits = limits
        self._settled: list[tuple[int, Answer]] = []
        self._refused_here: list[tuple[Delivery, Answer]] = []
        self._answer: ReasonCode | None = None
        self._lost: str | None = None
        self._window = Window()
        self._is_our_fault = False
        self._watched = select.poll()
        self._watched.register(wakeup, select.POLLIN)
        self._descriptor, self._peer = -1, ("", 0)
        self._active_at = time.monotonic()
        self._writing = False
        self._has_bytes = False  # read or decrypted bytes, which no poll of the socket reports
        self._keepalive_checked = 0.0
        self._errors = LastError()
        self._client = BufferedClient(
            CallbackAPIVersion.VERSION2,
            client_id=client_id,
            protocol=paho.MQTTv5 if self._speaks_5 else paho.MQTTv311,
            reconnect_on_failure=False,
            largest=LARGEST_PACKET,
            on_acknowledged=self._acknowledged,
        )
        self._client.max_inflight_messages_set(0)  # the window is kept here
        self._client.will_set(will.topic, will.payload, limits.qos, limits.retain)
        self._client.enable_logger(self._errors.logger)
        self._client.on_connect = self._on_connect
        self._client.on_disconnect = self._on_disconnect
        self._client.on_publish = self._on_publish
        self.subscriber = Subscriber(self._client, self._broker, self._trials)
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
            raise handshake_failure(self._broker, error) from error
        except (OSError, UnicodeError) as error:  # UnicodeError: a host name that IDNA cannot encode
            reason = getattr(error, "strerror", None) or error
            raise LinkError(BrokerState.UNREACHABLE, f"broker {self._broker} cannot be reached: {reason}") from error
        deadline = AWAKE.now() + ANSWER_TIMEOUT
        while self._answer is None and self._lost is None:
            if AWAKE.now() > deadline:
                hint = ": one that speaks MQTT 3.1.1 only may be silent (see `mqtt.version`)" if self._speaks_5 else ""
                raise LinkError(
                    BrokerState.UNREACHABLE, f"broker {self._broker} gave no answer within {ANSWER_TIMEOUT:g} s{hint}"
                )
            self._move(self.wait(0.5))
        if self._answer is None:
            raise alert(self._broker, self._errors.text) or UnansweredError(self._broker, self._limits_to_try())
        if self._answer.is_failure:
            raise refusal(self._broker, self._answer, self.limits)

    def _limits_to_try(self) -> Sequence[BrokerLimits]:
        """MQTT 3.1.1 cannot say that the last will is refused because it is retained, or has QoS 1."""
        return () if self._speaks_5 else tuple(self.limits.narrower())

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
        if isinstance(connection, socket.socket):  # else it broke at once
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_BYTES)
            self._descriptor = connection.fileno()
            self._watched.register(self._descriptor, select.POLLIN)

    @property
    def has_room(self) -> bool:
        """Whether one more message may be in flight."""
        return len(self._messages) < self._window.size and not self._trials.is_running

    @property
    def has_room_for_replayed(self) -> bool:
        """Whether one more replayed message may be in flight, with room left for live ones."""
        return self.has_room and len(self._messages) < self._window.size_for_replayed

    def may_send(self, message: OutgoingMessage) -> bool:
        """Whether a message may be sent now: one that is tried alone waits until all others are answered."""
        return self._trials.may_send(key_of(message))

    @property
    def suspect_besides_results(self) -> Suspect | None:
        """What the broker has not answered, unless it is a message of the outbox: a broker that hangs answers none."""
        suspect = self._trials.suspect
        return None if suspect is None or suspect.sent.kept else suspect

    @property
    def in_flight(self) -> int:
        """Number of messages the broker has not answered yet."""
        return len(self._messages)

    @property
    def overdue(self) -> float:
        """Seconds for which the next acknowledgement, of a message or a subscription, has been awaited."""
        return max(self._messages.overdue, self.subscriber.overdue)

    @property
    def expected_within(self) -> float:
        """Seconds that an acknowledgement may take on this line."""
        return self._window.soon_ns / NS

    def publish(self, delivery: Delivery) -> None:
        """Send a message; `process` returns it when the broker has answered.

        A late message is marked as historical; a replayed one is not retained, too: the topic's present message stays.
        One that is larger than the broker takes counts as refused by it.
        """
        message = delivery.message
        payload = as_historical(message.payload) if delivery.historical else message.payload
        properties = self._properties(message)
        most = self.limits.largest_packet
        if most is not None and _packet_bytes(message.topic, payload, properties) > most:
            answer = Answer(Outcome.REFUSED, f"larger than the broker's maximum packet size of {most} bytes")
            self._refused_here.append((delivery, answer))
            return
        retain = message.retain and not delivery.replayed and self.limits.retain
        qos = min(message.qos, self.limits.qos)
        if qos:
            packed = b"" if not self._speaks_5 else NO_PROPERTIES if properties is None else properties.pack()
            mid = self._client.publish_once(message.topic, payload, retain, packed)
        else:
            mid = self._client.publish(message.topic, payload, 0, retain, properties).mid
        delivery.sent_ns = time.monotonic_ns()
        self._messages.add(mid, delivery)
        self._trials.sent(mid, message_sent(message), is_answered=qos > 0)
        self._active_at = time.monotonic()

    def _properties(self, message: OutgoingMessage) -> PackedProperties | None:
        """Return the MQTT 5 properties of a message: when it expires, and the correlation data of an answer."""
        if not self._speaks_5:
            return None
        if message.correlation is not None:
            return PackedProperties(
                None if message.retain else self._config.message_expiry_interval, message.correlation
            )
        return None if message.retain else self._expiring

    def wait(self, timeout: float) -> Ready:
        """Wait for the network or a wake-up, `timeout` seconds at most; the result is for `process`."""
        if self._client.socket() is None or self._settled or self._refused_here:
            return Ready()
        if self._client.want_write() != self._writing:
            self._writing = not self._writing
            self._watched.modify(self._descriptor, select.POLLIN | (select.POLLOUT if self._writing else 0))
        readable, writable = self._has_bytes, False
        for descriptor, event in self._watched.poll(0 if readable else timeout * 1000):
            if descriptor == self._descriptor:
                readable, writable = readable or event != select.POLLOUT, bool(event & select.POLLOUT)
            else:
                self._wakeup.clear()
        return Ready(readable, writable)

    def process(self, ready: Ready) -> list[tuple[Delivery, Answer]]:
        """Read and write packets, and keep the connection alive.

        Returns the messages that the broker has answered, at QoS 0 those that were written. Raises LinkError where the
        connection broke.
        """
        self._move(ready)
        if self._refused_here:
            refused, self._refused_here = self._refused_here, []
            return refused
        if not self._settled:
            if self._lost is not None:
                raise alert(self._broker, self._errors.text) or self._loss(self._lost)
            return []
        answered = []
        for mid, answer in self._settled:
            in_flight = len(self._messages)
            delivery = self._messages.take(mid)
            if delivery is not None:
                self._window.answered(delivery.sent_ns, in_flight)
                answered.append((delivery, answer))
        self._settled.clear()
        self.acknowledged = (
            self.acknowledged or not self.limits.qos or any(delivery.message.qos for delivery, _ in answered)
        )
        return answered

    def _loss(self, reason: str) -> LinkError:
        suspect = self._trials.suspect if self._is_our_fault else None
        if reason == CLOSED and suspect is None:
            return closed(self._broker, self._client_id, explanation(self._peer, time.monotonic() - self._active_at))
        return loss(self._broker, self._client_id, reason, suspect)

    def close(self, politely: bool) -> None:
        """End it: politely with a DISCONNECT, so that the broker does not send the will, else by dropping it."""
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
            now = time.monotonic()
            if now - self._keepalive_checked > KEEPALIVE_CHECK_EVERY:
                self._keepalive_checked = now
                self._client.loop_misc()
            has_decrypted = isinstance(connection, ssl.SSLSocket) and connection.pending() > 0
            self._has_bytes = self._client.has_buffered or has_decrypted
        except PacketTooLargeError as error:
            self._client.disconnect(ReasonCode(PacketTypes.DISCONNECT, "Packet too large"))
            self._lost, self._is_our_fault = str(error), True
        except Exception as error:  # noqa: BLE001 - paho's decoders raise many kinds at bytes that are no MQTT
            self._lost = f"the broker sent an invalid MQTT packet ({type(error).__name__})"
            self._is_our_fault = True  # its answer to what is sent again otherwise

    def _on_connect(
        self,
        _client: paho.Client,
        _userdata: object,
        _flags: paho.ConnectFlags,
        reason: ReasonCode,
        extra: Properties | None,
    ) -> None:
        self._answer = reason
        connection = self._client.socket()
        if isinstance(connection, socket.socket):
            with suppress(OSError):  # it may be closed again
                self._peer = connection.getpeername()
        if not reason.is_failure:
            self.limits = self.limits.narrowed_by(extra)
            self._window.limit = self.limits.window

    def _on_disconnect(
        self,
        _client: paho.Client,
        _userdata: object,
        flags: paho.DisconnectFlags,
        reason: ReasonCode,
        _extra: Properties | None,
    ) -> None:
        if flags.is_disconnect_packet_from_server:
            self._lost, self._is_our_fault = str(reason), blames_packet(reason)
        else:
            self._lost = self._errors.socket_error if str(reason) == SOCKET_ENDED else str(reason)
            self._is_our_fault = self._lost == CLOSED or str(reason) not in (SOCKET_ENDED, "Keep alive timeout")

    def _on_publish(
        self, _client: paho.Client, _userdata: object, mid: int, _reason: ReasonCode, _extra: Properties
    ) -> None:
        """A message of QoS 0 was written."""
        self._acknowledged(mid, 0)

    def _acknowledged(self, mid: int, reason: int) -> None:
        answer = answer_of(ReasonCode(PacketTypes.PUBACK, identifier=reason)) if reason else ACCEPTED
        self._settled.append((mid, answer))
        self._active_at = time.monotonic()
        self._trials.answered(mid)


def _packet_bytes(topic: str, payload: bytes, properties: PackedProperties | None) -> int:
    """Bytes of a PUBLISH packet at most: header and lengths take up to 9."""
    packed = len(properties.pack()) if properties is not None else 1
    return 9 + len(topic.encode()) + packed + len(payload)
