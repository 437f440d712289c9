"""paho's client, quicker in the places that every message passes: its properties, the acknowledgement, the reading.

For properties and for acknowledgements paho builds a table of all properties of MQTT 5, which costs more than the rest
of the message's way (benchmarks/frame_cost.py). It reads each packet in three pieces, two of them a byte long.
"""

from collections import Counter
from typing import Any, Literal

import paho.mqtt.client as paho
from paho.mqtt.enums import MQTTErrorCode, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

_NO_PROPERTIES = Properties(PacketTypes.PUBACK)  # type: ignore[no-untyped-call]
_TAKEN = ReasonCode(PacketTypes.PUBACK, "Success")
_NOBODY_LISTENS = ReasonCode(PacketTypes.PUBACK, "No matching subscribers")
_PLAIN = {
    MQTTProtocolVersion.MQTTv31: {b"": _TAKEN},
    MQTTProtocolVersion.MQTTv311: {b"": _TAKEN},
    MQTTProtocolVersion.MQTTv5: {b"": _TAKEN, b"\x00": _TAKEN, b"\x10": _NOBODY_LISTENS},
}
"""What follows the message's number in acknowledgements without properties, and what it means."""


class PackedProperties(Properties):
    """Properties of PUBLISH packets, packed once: seconds until a message expires, and the mark of its question."""

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


READ_AT_ONCE = 16_384
"""Bytes that are read from the socket at once."""

_FIXED_AND_TOPIC_LENGTH = 4
"""Bytes of a PUBLISH up to its topic, at least: type, remaining length, two bytes of the topic's length."""


class Client(paho.Client):
    """A client with a short way for plain acknowledgements of published messages, and a shorter one for a flood.

    The methods are paho's own and private: pyproject.toml admits the versions of paho in which they were tried. Were
    they no longer called, all would take paho's way, only slower.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.unwanted: set[bytes] = set()
        self.passed_over: Counter[bytes] = Counter()
        self._read = b""
        self._at = 0

    @property
    def has_read(self) -> bool:
        """Whether bytes are here of which no poll of the socket tells."""
        return self._at < len(self._read)

    def _sock_recv(self, bufsize: int) -> bytes:
        if not self.has_read:
            self._read, self._at = super()._sock_recv(max(bufsize, READ_AT_ONCE)), 0
        piece = self._read[self._at : self._at + bufsize]
        self._at += len(piece)
        return piece

    def _packet_read(self) -> MQTTErrorCode:
        if self.unwanted and self._in_packet["command"] == 0:
            self._pass_over()
        return super()._packet_read()

    def _pass_over(self) -> None:
        """Pass over the messages of QoS 0 on topics in `unwanted` that are here whole, and count them.

        What a broker sent before it knew that we had unsubscribed may be thousands, and each costs paho 0.1 ms.
        """
        read, at = self._read, self._at
        while at + _FIXED_AND_TOPIC_LENGTH <= len(read) and read[at] & 0xF6 == 0x30:  # PUBLISH, QoS 0
            start, length, shift = at + 1, 0, 0
            while start < len(read) and shift < 28:
                group, start = read[start], start + 1
                length |= (group & 0x7F) << shift
                shift += 7
                if group < 0x80:
                    break
            end = start + length
            topic = read[start + 2 : start + 2 + int.from_bytes(read[start : start + 2], "big")]
            if end > len(read) or topic not in self.unwanted:
                break
            self.passed_over[topic] += 1
            at = end
        self._at = at

    def _handle_pubackcomp(self, cmd: Literal["PUBACK", "PUBCOMP"]) -> MQTTErrorCode:
        packet = bytes(self._in_packet["packet"])
        reason = _PLAIN[self._protocol].get(packet[2:])
        if cmd != "PUBACK" or len(packet) < 2 or reason is None:
            return super()._handle_pubackcomp(cmd)
        number = int.from_bytes(packet[:2], "big")
        with self._out_message_mutex:
            if number in self._out_messages:
                return self._do_on_publish(number, reason, _NO_PROPERTIES)
        return MQTTErrorCode.MQTT_ERR_SUCCESS
