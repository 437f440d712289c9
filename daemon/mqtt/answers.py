"""What a broker's answer to a message, a subscription or a connection means: the reason codes of MQTT 5, 2.4.

Every code of 128 or more is an error. Those below speak of a moment: the same packet may be accepted later. All others
are final: the packet, or the client's rights, would have to change.
"""

from enum import Enum
from typing import NamedTuple

from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.reasoncodes import ReasonCode

_OF_A_MOMENT = {
    PacketTypes.PUBACK: {0x80, 0x83, 0x91, 0x97},
    PacketTypes.PUBREC: {0x80, 0x83, 0x91, 0x97},
    PacketTypes.SUBACK: {0x80, 0x83, 0x91, 0x97},
    PacketTypes.UNSUBACK: {0x80, 0x83, 0x91},
    PacketTypes.CONNACK: {0x80, 0x83, 0x88, 0x89, 0x97, 0x9F},
    PacketTypes.DISCONNECT: {0x80, 0x83, 0x89, 0x8B, 0x8D, 0x93, 0x96, 0x97, 0x98, 0x9F, 0xA0},
}
"""0x80 unspecified, 0x83 implementation specific, 0x88 unavailable, 0x89 busy, 0x8B shutting down, 0x8D keep-alive
timeout, 0x91 packet identifier in use, 0x93 receive maximum exceeded, 0x96 message rate too high, 0x97 quota exceeded,
0x98 administrative action, 0x9F connection rate exceeded, 0xA0 maximum connect time.

Final are 0x81 malformed packet, 0x82 protocol error, 0x84 protocol version, 0x85 client identifier, 0x86 login, 0x87
not authorized, 0x8A banned, 0x8C authentication method, 0x8E session taken over, 0x8F topic filter, 0x90 topic name,
0x92 packet identifier not found, 0x94 topic alias, 0x95 packet too large, 0x99 payload format, 0x9A retain, 0x9B QoS,
0x9C and 0x9D another server, 0x9E, 0xA1 and 0xA2 kinds of subscriptions."""


_NOT_OF_A_PACKET = {0x00, 0x89, 0x8B, 0x8D, 0x8E, 0x98, 0x9C, 0x9D, 0x9F, 0xA0}
"""Reasons of a DISCONNECT that no packet of ours explains: it is busy, shuts down, sends us elsewhere, and so on."""


class Outcome(Enum):
    """Whether the broker accepted a message, refused it for now, or refused it for good."""

    ACCEPTED = 1
    POSTPONED = 2
    REFUSED = 3


class Answer(NamedTuple):
    """The broker's answer to a message; reason: why it was not accepted, in the words of MQTT."""

    outcome: Outcome
    reason: str = ""


ACCEPTED = Answer(Outcome.ACCEPTED)


def is_final(reason: ReasonCode) -> bool:
    """Whether an error will come again for the same packet; `reason` is at least 0x80."""
    return reason.value not in _OF_A_MOMENT[reason.packetType]


def blames_packet(reason: ReasonCode) -> bool:
    """Whether the reason of a DISCONNECT may be a packet of ours."""
    return reason.value not in _NOT_OF_A_PACKET


def answer_of(reason: ReasonCode) -> Answer:
    """Return what a reason code of a PUBACK means. MQTT 3.1.1 has none: there each is a success."""
    if not reason.is_failure:
        return ACCEPTED
    return Answer(Outcome.REFUSED if is_final(reason) else Outcome.POSTPONED, str(reason).lower())
