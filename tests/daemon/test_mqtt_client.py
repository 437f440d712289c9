"""The quicker places of the client against paho's own."""

import paho.mqtt.client as paho
import pytest
from hypothesis import given
from hypothesis import strategies as st
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from edgemeta.daemon.mqtt_client import Client, PackedProperties


@given(expiry=st.none() | st.integers(1, 2**32 - 1), correlation=st.none() | st.binary(max_size=300))
def test_packed_properties_are_the_bytes_that_paho_packs(expiry: int | None, correlation: bytes | None) -> None:
    expected = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
    if expiry is not None:
        expected.MessageExpiryInterval = expiry
    if correlation is not None:
        expected.CorrelationData = correlation
    assert PackedProperties(expiry, correlation).pack() == expected.pack()  # type: ignore[no-untyped-call]


def acknowledged(kind: type[paho.Client], protocol: int, cmd: str, packet: bytes) -> object:
    """What a client with message 1 in flight makes of a packet: its answer and what it tells, or its exception."""
    told: list[tuple[int, int]] = []
    client = kind(CallbackAPIVersion.VERSION2, protocol=protocol)  # type: ignore[arg-type]
    client.on_publish = lambda _client, _userdata, mid, reason, _properties: told.append((mid, reason.value))
    client.publish("topic", b"payload", qos=1)
    client._in_packet |= {"packet": bytearray(packet), "remaining_length": len(packet)}
    try:
        answer = client._handle_pubackcomp(cmd)  # type: ignore[arg-type]
    except Exception as error:  # noqa: BLE001 - paho's decoders raise many kinds
        return type(error), told
    return answer, told, list(client._out_messages)


@pytest.mark.parametrize("protocol", [paho.MQTTv5, paho.MQTTv311])
@pytest.mark.parametrize("cmd", ["PUBACK", "PUBCOMP"])
@given(packet=st.one_of(st.binary(max_size=6), st.binary(max_size=4).map(lambda tail: b"\x00\x01" + tail)))
def test_any_acknowledgement_means_what_paho_makes_of_it(protocol: int, cmd: str, packet: bytes) -> None:
    assert acknowledged(Client, protocol, cmd, packet) == acknowledged(paho.Client, protocol, cmd, packet)


@pytest.mark.parametrize("packet", [b"\x00\x01", b"\x00\x01\x00", b"\x00\x01\x10"])
def test_a_plain_acknowledgement_takes_the_short_way(packet: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(paho.Client, "_handle_pubackcomp")
    assert acknowledged(Client, paho.MQTTv5, "PUBACK", packet) == (0, [(1, (packet + b"\x00")[2])], [])
