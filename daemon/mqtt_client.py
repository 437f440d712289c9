"""paho's client, quicker in the two places that every message passes: its properties, and the broker's acknowledgement.

For each of them paho builds a table of all properties of MQTT 5, which costs more than the rest of the message's way
(benchmarks/frame_cost.py).
"""

from typing import Literal

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


class Client(paho.Client):
    """A client with a short way for plain acknowledgements of published messages.

    The method is paho's own and private: pyproject.toml admits the versions of paho in which it was tried. Were it no
    longer called, acknowledgements would take paho's way, only slower.
    """

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
