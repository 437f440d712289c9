"""paho's client: flooded messages are skipped in the read buffer, none lost or invented; properties are packed once."""

import socket
from itertools import pairwise

import paho.mqtt.client as paho
import pytest
from hypothesis import given
from hypothesis import strategies as st
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from edgemeta.daemon.mqtt.paho_client import (
    NO_PROPERTIES,
    READ_BYTES,
    BufferedClient,
    PackedProperties,
    PacketTooLargeError,
)

TOPICS = (b"d/cmd/reload", b"d/cmd/model")


def published(topic: bytes, payload: bytes, number: int = 0) -> bytes:
    """A PUBLISH of MQTT 3.1.1; of QoS 1 if it has a number."""
    body = len(topic).to_bytes(2, "big") + topic + (number.to_bytes(2, "big") if number else b"") + payload
    length = bytes([len(body)]) if len(body) < 128 else bytes([len(body) % 128 | 128, len(body) // 128])
    return bytes([0x32 if number else 0x30]) + length + body


def read_in_parts(client: BufferedClient, stream: bytes, cuts: list[int], reads: int) -> None:
    """Let the client read a stream that arrives in parts, so many times after each."""
    bounds = [0, *sorted(cut for cut in cuts if cut < len(stream)), len(stream)]
    here, there = socket.socketpair()
    with here, there:
        here.setblocking(False)
        client._sock = here
        for begin, end in pairwise(bounds):
            there.sendall(stream[begin:end])
            for _ in range(reads):
                assert client.loop_read() == paho.MQTT_ERR_SUCCESS
        assert not client.has_buffered
        client._sock = None


messages = st.tuples(st.sampled_from(TOPICS), st.binary(max_size=200), st.integers(0, 3))


@given(sent=st.lists(messages, max_size=30), cuts=st.lists(st.integers(0, 3000), max_size=5))
def test_only_messages_of_qos_0_on_unwanted_topics_are_skipped(
    sent: list[tuple[bytes, bytes, int]], cuts: list[int]
) -> None:
    """Wherever the bytes are cut: paho parses an incomplete packet, and no message is lost or invented."""
    received: list[tuple[bytes, bytes, int]] = []

    def on_message(_client: paho.Client, _userdata: object, message: paho.MQTTMessage) -> None:
        received.append((message.topic.encode(), message.payload, message.qos))

    client = BufferedClient(CallbackAPIVersion.VERSION2, protocol=paho.MQTTv311, largest=10_000)
    client.on_message = on_message
    client.unwanted = {TOPICS[0]}
    stream = b"".join(published(*message) for message in sent)
    read_in_parts(client, stream, cuts, 2 * len(sent) + 2)
    expected = [(topic, payload, min(number, 1)) for topic, payload, number in sent]
    assert [one for one in received if is_wanted(one)] == [one for one in expected if is_wanted(one)]
    assert len(received) + client.skipped.total() == len(sent)


def is_wanted(message: tuple[bytes, bytes, int]) -> bool:
    topic, _, qos = message
    return topic != TOPICS[0] or qos == 1


def test_a_buffer_of_unwanted_messages_is_skipped() -> None:
    client = BufferedClient(CallbackAPIVersion.VERSION2, protocol=paho.MQTTv311, largest=10_000)
    client.on_message = lambda *_: pytest.fail("paho got a message")
    client.unwanted = {TOPICS[0]}
    client._buffer = 100 * published(TOPICS[0], b"")
    client._skip_unwanted()
    assert client.skipped == {TOPICS[0]: 100}
    assert not client.has_buffered


@pytest.mark.parametrize("size", [900, 1100, 300_000])
def test_of_a_large_packet_only_the_bytes_that_are_needed_are_kept(size: int) -> None:
    """Of MQTT 3.1.1: the message comes cut, longer than is handled, and the next one comes whole."""
    received: list[paho.MQTTMessage] = []
    client = BufferedClient(CallbackAPIVersion.VERSION2, protocol=paho.MQTTv311, largest=1000)
    client.on_message = lambda _client, _userdata, message: received.append(message)
    packet = b"\x32" + length_of(size) + b"\0\1t" + b"\0\7" + b"A" * (size - 5)
    here, there = socket.socketpair()
    most = 0
    with here, there:
        here.setblocking(False)
        client._sock = here
        for at in range(0, len(packet), 10_000):
            there.sendall(packet[at : at + 10_000])
            for _ in range(2):
                assert client.loop_read() == paho.MQTT_ERR_SUCCESS
                most = max(most, len(client._in_packet["packet"]))
        there.sendall(published(b"t", b"next"))
        client.loop_read()
        assert there.recv(100) == b"\x40\2\0\7", "it was not acknowledged"
        client._sock = None
    assert most <= 1000 + READ_BYTES
    cut, last = received
    assert last.payload == b"next"
    assert len(cut.payload) == size - 5 if size < 1000 else 995 < len(cut.payload) <= 995 + READ_BYTES


def test_a_packet_of_mqtt_5_that_is_too_large_is_an_error_at_its_header() -> None:
    client = BufferedClient(CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5, largest=1000)
    here, there = socket.socketpair()
    with here, there:
        here.setblocking(False)
        client._sock = here
        there.sendall(b"\x30" + length_of(260_000_000) + b"A" * 100)
        with pytest.raises(PacketTooLargeError, match="a packet of 260000000 bytes, more than the 1000"):
            client.loop_read()
        assert len(client._in_packet["packet"]) == 0
        client._sock = None


def length_of(size: int) -> bytes:
    """Remaining length of a packet (MQTT 5, 1.5.5)."""
    groups = []
    while True:
        size, group = divmod(size, 128)
        groups.append(group | (128 if size else 0))
        if not size:
            return bytes(groups)


@given(expiry=st.none() | st.integers(1, 2**32 - 1), correlation=st.none() | st.binary(max_size=300))
def test_packed_properties_are_the_bytes_that_paho_packs(expiry: int | None, correlation: bytes | None) -> None:
    expected = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
    if expiry is not None:
        expected.MessageExpiryInterval = expiry
    if correlation is not None:
        expected.CorrelationData = correlation
    assert PackedProperties(expiry, correlation).pack() == expected.pack()  # type: ignore[no-untyped-call]


@given(
    name=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="#+"), min_size=1, max_size=40),
    payload=st.binary(max_size=300),
    retain=st.booleans(),
    expiry=st.none() | st.integers(1, 2**32 - 1),
    version=st.sampled_from([paho.MQTTv311, paho.MQTTv5]),
)
def test_a_message_that_is_packed_here_has_the_bytes_of_pahos_own(
    name: str, payload: bytes, retain: bool, expiry: int | None, version: paho.MQTTProtocolVersion
) -> None:
    speaks_5 = version == paho.MQTTv5
    properties = PackedProperties(expiry) if speaks_5 and expiry is not None else None
    packed = (properties.pack() if properties else NO_PROPERTIES) if speaks_5 else b""
    sent = []
    for own in (False, True):
        client = BufferedClient(CallbackAPIVersion.VERSION2, protocol=version, largest=1000)
        here, there = socket.socketpair()
        with here, there:
            client._sock = here
            if own:
                mid = client.publish_once(name, payload, retain, packed)
            else:
                mid = client.publish(name, payload, 1, retain, properties).mid
            assert mid == 1
            sent.append(there.recv(1000))
            client._sock = None
    assert sent[0] == sent[1]


@given(
    acknowledged=st.lists(
        st.tuples(st.integers(1, 65535), st.none() | st.just(0x10) | st.just(0x97), st.integers(0, 200))
    ),
    cuts=st.lists(st.integers(0, 3000), max_size=5),
    version=st.sampled_from([paho.MQTTv311, paho.MQTTv5]),
)
def test_each_acknowledgement_is_taken_once_wherever_it_is_cut(
    acknowledged: list[tuple[int, int | None, int]], cuts: list[int], version: paho.MQTTProtocolVersion
) -> None:
    """Without a reason, with one, and with a text of the broker's; an answer to a ping between two of them."""
    taken: list[tuple[int, int]] = []
    client = BufferedClient(
        CallbackAPIVersion.VERSION2,
        protocol=version,
        largest=10_000,
        on_acknowledged=lambda mid, reason: taken.append((mid, reason)),
    )
    stream, expected = b"", []
    for mid, reason, length in acknowledged:
        body = mid.to_bytes(2, "big")
        if reason is not None and version == paho.MQTTv5:
            text = b"\x1f" + length.to_bytes(2, "big") + length * b"a"  # 0x1F: reason string
            body += bytes([reason]) + (length_of(len(text)) + text if length else b"")
        stream += b"\x40" + length_of(len(body)) + body + b"\xd0\0"
        expected.append((mid, reason or 0 if version == paho.MQTTv5 else 0))
    read_in_parts(client, stream, cuts, 4 * len(acknowledged) + 4)
    assert taken == expected


@pytest.mark.parametrize("packet", [b"\x40\1\0", b"\x40\3\0\7\0"])
def test_an_acknowledgement_of_an_invalid_length_ends_the_connection(packet: bytes) -> None:
    """MQTT 3.1.1 has no reasons."""
    client = BufferedClient(
        CallbackAPIVersion.VERSION2,
        protocol=paho.MQTTv311,
        largest=1000,
        on_acknowledged=lambda *_: pytest.fail("taken"),
    )
    here, there = socket.socketpair()
    with here, there:
        here.setblocking(False)
        client._sock = here
        there.sendall(packet)
        assert client.loop_read() == paho.MQTT_ERR_PROTOCOL
        client._sock = None
