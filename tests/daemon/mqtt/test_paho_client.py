"""The quicker places of the client against paho's own."""

import socket
from itertools import pairwise

import paho.mqtt.client as paho
import pytest
from hypothesis import given
from hypothesis import strategies as st
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from edgemeta.daemon.mqtt.paho_client import Client, PackedProperties


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


TOPICS = (b"d/cmd/reload", b"d/cmd/model")


def published(topic: bytes, payload: bytes, number: int = 0) -> bytes:
    """A PUBLISH of MQTT 3.1.1; of QoS 1 where it has a number."""
    body = len(topic).to_bytes(2, "big") + topic + (number.to_bytes(2, "big") if number else b"") + payload
    length = bytes([len(body)]) if len(body) < 128 else bytes([len(body) % 128 | 128, len(body) // 128])
    return bytes([0x32 if number else 0x30]) + length + body


messages = st.tuples(st.sampled_from(TOPICS), st.binary(max_size=200), st.integers(0, 3))


@given(sent=st.lists(messages, max_size=30), cuts=st.lists(st.integers(0, 3000), max_size=5))
def test_only_messages_of_qos_0_on_unwanted_topics_are_passed_over(
    sent: list[tuple[bytes, bytes, int]], cuts: list[int]
) -> None:
    """Wherever the bytes are cut: a packet that is not here whole goes paho's way, and nothing is lost or made up."""
    came: list[tuple[bytes, bytes, int]] = []

    def on_message(_client: paho.Client, _userdata: object, message: paho.MQTTMessage) -> None:
        came.append((message.topic.encode(), message.payload, message.qos))

    client = Client(CallbackAPIVersion.VERSION2, protocol=paho.MQTTv311)
    client.on_message = on_message
    client.unwanted = {TOPICS[0]}
    stream = b"".join(published(*message) for message in sent)
    bounds = [0, *sorted(cut for cut in cuts if cut < len(stream)), len(stream)]
    here, there = socket.socketpair()
    with here, there:
        here.setblocking(False)
        client._sock = here
        for begin, end in pairwise(bounds):
            there.sendall(stream[begin:end])
            for _ in range(2 * len(sent) + 2):
                assert client.loop_read() == paho.MQTT_ERR_SUCCESS
        assert not client.has_read
        client._sock = None
    expected = [(topic, payload, min(number, 1)) for topic, payload, number in sent]
    assert [one for one in came if is_wanted(one)] == [one for one in expected if is_wanted(one)]
    assert len(came) + client.passed_over.total() == len(sent)


def is_wanted(message: tuple[bytes, bytes, int]) -> bool:
    topic, _, qos = message
    return topic != TOPICS[0] or qos == 1


def test_a_buffer_of_unwanted_messages_costs_paho_nothing() -> None:
    client = Client(CallbackAPIVersion.VERSION2, protocol=paho.MQTTv311)
    client.on_message = lambda *_: pytest.fail("handed on")
    client.unwanted = {TOPICS[0]}
    client._read = 100 * published(TOPICS[0], b"")
    client._pass_over()
    assert client.passed_over == {TOPICS[0]: 100}
    assert not client.has_read
