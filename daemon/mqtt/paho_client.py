"""paho's client, where it would be too slow or says too little: own messages, read buffer, properties, last error.

Messages of QoS 1 are packed here and their acknowledgements are taken from the read buffer, without the records, locks
and logs that paho keeps for each: the link has its own (docs/decisions/0016). paho writes, and does all the rest.

In the read buffer messages of a flood are skipped before paho parses them, which takes about 0.1 ms of Python for each.
A broker may have sent thousands before it receives our UNSUBSCRIBE, and acknowledgements of our own messages wait
behind them (docs/decisions/0019).
"""

import logging
import ssl
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import paho.mqtt.client as paho
from paho.mqtt.enums import MQTTErrorCode
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from edgemeta.daemon.mqtt.state import CLOSED
from edgemeta.model.errors import EdgemetaError

READ_BYTES = 16_384
"""Bytes that are read from the socket at once."""

NO_PROPERTIES = b"\0"
"""A PUBLISH of MQTT 5 without any, packed."""

_PUBACK = 0x40
"""First byte of an acknowledgement."""

_TO_TOPIC = 4
"""Least bytes of a PUBLISH up to its topic: type, remaining length, two bytes of the topic's length."""


class PacketTooLargeError(EdgemetaError):
    """A broker of MQTT 5 sent a packet larger than the client had allowed."""


class BufferedClient(paho.Client):
    """Skips messages of QoS 0 on the topics in `unwanted`, and keeps no packet of more than `largest` bytes.

    A broker of MQTT 5 was told that size, so a larger packet is an error: PacketTooLargeError at its header. MQTT 3.1.1
    cannot tell it: what exceeds it is dropped, so the message is longer than is handled, and acknowledged as others.

    It overrides three private methods of paho, and calls three: pyproject.toml limits paho to the versions in which it
    was tested.

    on_acknowledged: called with the packet identifier and the reason of each acknowledgement of `publish_once`.
    """

    def __init__(
        self, *arguments: Any, largest: int, on_acknowledged: Callable[[int, int], None] | None = None, **options: Any
    ) -> None:
        super().__init__(*arguments, **options)
        self._largest = largest
        self._on_acknowledged = on_acknowledged
        self._failure: OSError | None = None
        self.unwanted: set[bytes] = set()
        self.skipped: Counter[bytes] = Counter()
        self._buffer = b""
        self._at = 0

    @property
    def has_buffered(self) -> bool:
        """Whether bytes are in the buffer, which no poll of the socket reports."""
        return self._at < len(self._buffer)

    def publish_once(self, topic: str, payload: bytes, retain: bool, properties: bytes) -> int:
        """Send a message at QoS 1, never again; return its packet identifier.

        properties: packed, for MQTT 5; empty for 3.1.1. topic: not empty, without wildcards.
        """
        mid, name = self._mid_generate(), topic.encode()
        packet = bytearray((0x33 if retain else 0x32,))
        self._pack_remaining_length(packet, 4 + len(name) + len(properties) + len(payload))
        packet += b"".join((len(name).to_bytes(2, "big"), name, mid.to_bytes(2, "big"), properties, payload))
        self._packet_queue(paho.PUBLISH, packet, mid, 1)
        return mid

    def _sock_recv(self, bufsize: int) -> bytes:
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        if self._in_packet["remaining_length"] > self._largest and self._in_packet["have_remaining"]:
            self._bound_packet()
        if not self.has_buffered:
            self._buffer, self._at = super()._sock_recv(max(bufsize, READ_BYTES)), 0
        piece = self._buffer[self._at : self._at + bufsize]
        self._at += len(piece)
        return piece

    def _packet_read(self) -> MQTTErrorCode:
        if self._in_packet["command"] == 0:
            if not self.has_buffered:
                try:
                    self._buffer, self._at = super()._sock_recv(READ_BYTES), 0
                except OSError as failure:
                    self._failure = failure  # paho says what it means
            if self.unwanted:
                self._skip_unwanted()
            if self._take_acknowledgements():
                return MQTTErrorCode.MQTT_ERR_SUCCESS
        return super()._packet_read()

    def _take_acknowledgements(self) -> bool:
        """Take whole acknowledgements of one byte of length from the buffer's start; return whether there were any."""
        buffer, at = self._buffer, self._at
        while at + 2 < len(buffer) and buffer[at] == _PUBACK and buffer[at + 1] < 128:
            body = buffer[at + 2 : at + 2 + buffer[at + 1]]
            if len(body) != buffer[at + 1] or not self._is_acknowledgement(body):
                break
            self._acknowledge(body)
            at += 2 + len(body)
        if at == self._at:
            return False
        self._at = at
        self._last_bytes_received = time.monotonic()
        return True

    def _packet_handle(self) -> MQTTErrorCode:
        body = self._in_packet["packet"]
        if self._in_packet["command"] != _PUBACK or not self._is_acknowledgement(body):
            return super()._packet_handle()
        self._acknowledge(body)
        return MQTTErrorCode.MQTT_ERR_SUCCESS

    def _is_acknowledgement(self, body: bytes | bytearray) -> bool:
        """Whether it has a valid length."""
        return len(body) == 2 or (self._protocol == paho.MQTTv5 and len(body) > 2)

    def _acknowledge(self, body: bytes | bytearray) -> None:
        """Take an acknowledgement: an identifier, the reason, if it is not 0, and properties, which do not matter."""
        if self._on_acknowledged is not None:
            self._on_acknowledged(int.from_bytes(body[:2], "big"), body[2] if len(body) > 2 else 0)

    def _bound_packet(self) -> None:
        if self._protocol == paho.MQTTv5:
            raise PacketTooLargeError(
                f"the broker sent a packet of {self._in_packet['remaining_length']} bytes, more than the "
                f"{self._largest} that it was told"
            )
        del self._in_packet["packet"][self._largest :]

    def _skip_unwanted(self) -> None:
        """Skip and count complete messages of QoS 0 on unwanted topics at the start of the buffer."""
        buffer, at = self._buffer, self._at
        while at + _TO_TOPIC <= len(buffer) and buffer[at] & 0xF6 == 0x30:  # PUBLISH, QoS 0
            start, length, shift = at + 1, 0, 0
            while start < len(buffer) and shift < 28:
                group, start = buffer[start], start + 1
                length |= (group & 0x7F) << shift
                shift += 7
                if group < 0x80:
                    break
            end = start + length
            topic = buffer[start + 2 : start + 2 + int.from_bytes(buffer[start : start + 2], "big")]
            if end > len(buffer) or topic not in self.unwanted:
                break
            self.skipped[topic] += 1
            at = end
        self._at = at


class PackedProperties(Properties):
    """Properties of a PUBLISH, packed once: for each message that takes paho 35 to 70 µs (docs/decisions/0016).

    expiry: seconds until the message expires. correlation: data of an answer. None leaves a property out.
    """

    _packed: bytes

    def __init__(self, expiry: int | None, correlation: bytes | None = None) -> None:
        super().__init__(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
        if expiry is not None:
            self.MessageExpiryInterval = expiry
        if correlation is not None:
            self.CorrelationData = correlation
        object.__setattr__(self, "_packed", super().pack())  # type: ignore[no-untyped-call]

    def pack(self) -> bytes:
        """Return the bytes for the packet."""
        return self._packed


class LastError(logging.Handler):
    """Keeps the last error that one client logs to `logger`: only there is the TLS alert, or the system's error.

    text: as paho wrote it; empty before the first.
    """

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.text = ""
        self._error: OSError | None = None
        self.logger = logging.Logger("paho", logging.ERROR)
        self.logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep an error."""
        self.text = record.getMessage()
        self._error = next((each for each in record.args or () if isinstance(each, OSError)), None)

    @property
    def socket_error(self) -> str:
        """The system's description of a network error, CLOSED where the other side has closed the connection."""
        if self._error is None or isinstance(self._error, ConnectionError | ssl.SSLEOFError | ssl.SSLZeroReturnError):
            return CLOSED
        return self._error.strerror or str(self._error)
