"""One connection to a broker that sends any bytes: it works, or ends with an error of one sentence."""

import random
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgemeta.daemon.config.broker import MqttConfig
from edgemeta.daemon.mqtt.connection import Connection
from edgemeta.daemon.mqtt.in_flight import FIRST
from edgemeta.daemon.mqtt.limits import BrokerLimits
from edgemeta.daemon.mqtt.outbox.delivery import Delivery, OutgoingMessage
from edgemeta.daemon.mqtt.state import LinkError
from edgemeta.daemon.mqtt.suspects import Suspects
from edgemeta.daemon.mqtt.wakeup import Wakeup

ACCEPTED = bytes([0x20, 3, 0, 0, 0])
PACKETS = [
    ACCEPTED,
    bytes([0x20, 6, 0, 0, 3, 0x21, 0, 20]),  # accepted, ReceiveMaximum 20
    bytes([0x20, 3, 0, 0x87, 0]),  # not authorized
    bytes([0x20, 2, 0, 5]),  # not authorized, MQTT 3.1.1
    bytes([0x40, 2, 0, 1]),  # PUBACK
    bytes([0x40, 4, 0, 1, 0x87, 0]),
    bytes([0xD0, 0]),  # PINGRESP
    bytes([0xE0, 2, 0x8E, 0]),  # DISCONNECT
    bytes([0x30, 5, 0, 1, 0x61, 0, 0x62]),  # PUBLISH, though nothing was subscribed
    bytes([0x90, 3, 0, 1, 0]),
    bytes([0xF0, 2, 0, 0]),  # AUTH
    bytes([0x62, 2, 0, 1]),
]


class FixedBroker:
    """A broker that accepts connections one after the other and sends fixed bytes to each."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.description = b""
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                try:
                    connection.recv(4096)
                    connection.sendall(self.description)
                    connection.shutdown(socket.SHUT_WR)
                    while connection.recv(4096):
                        pass
                except OSError:
                    pass

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(60)


@pytest.fixture(scope="module")
def broker() -> Iterator[FixedBroker]:
    broker = FixedBroker()
    yield broker
    broker.close()


def listen_to(broker: FixedBroker, description: bytes, version: int) -> str:
    """Connect to a broker that says this and closes; return why the connection ended."""
    broker.description = description
    config = MqttConfig.model_validate(
        {"host": "127.0.0.1", "port": broker.port, "version": 5 if version == 5 else "3.1.1"}
    )
    wakeup = Wakeup()
    will = OutgoingMessage("t", b"offline", 1, retain=True)
    connection = Connection(config, "fuzzed", will, wakeup, BrokerLimits(1), Suspects("broker"))
    deadline = time.monotonic() + 60
    try:
        connection.open()
        if connection.has_room:
            connection.publish(Delivery(OutgoingMessage("t", b"1", 1, retain=False)))
        while True:
            connection.process(connection.wait(1.0))
            assert time.monotonic() < deadline
    except LinkError as error:
        return str(error)
    finally:
        connection.close(politely=False)


def test_a_lawful_end(broker: FixedBroker) -> None:
    for accepted, version in ((ACCEPTED, 5), (bytes([0x20, 2, 0, 0]), 3)):
        assert "lost: the broker closed it without a reason" in listen_to(broker, accepted, version)
    assert "refused the connection: not authorized" in listen_to(broker, bytes([0x20, 3, 0, 0x87, 0]), 5)
    assert "closed the connection before it answered" in listen_to(broker, b"", 5)
    assert "closed the connection before it answered" in listen_to(broker, b"HTTP/1.1 400 Bad Request\r\n\r\n", 5)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (0x95, "lost: packet too large after a message on t was sent"),
        (0x87, "lost: not authorized after a message on t was sent"),
        (0x97, "lost: quota exceeded after a message on t was sent"),
        (0x8B, "lost: server shutting down"),
        (0x8E, "another client has taken the client id 'fuzzed'"),
    ],
)
def test_the_reason_of_a_disconnect_and_what_was_sent_last_are_named(broker: FixedBroker, code: int, said: str) -> None:
    assert listen_to(broker, ACCEPTED + bytes([0xE0, 2, code, 0]), 5).endswith(said)


sentences = st.lists(st.sampled_from(PACKETS) | st.binary(max_size=40), max_size=5).map(b"".join)


@settings(max_examples=150, deadline=None)
@given(description=sentences, accepted=st.booleans(), version=st.sampled_from([5, 3]))
def test_any_packets_of_a_broker_end_with_one_sentence(
    broker: FixedBroker, description: bytes, accepted: bool, version: int
) -> None:
    assert str(broker.port) in listen_to(broker, (ACCEPTED if accepted else b"") + description, version)


@pytest.mark.slow
@pytest.mark.fuzz
@pytest.mark.timeout(3600)
def test_fifty_thousand_random_packets_of_a_broker(broker: FixedBroker, fed: Callable[[str, int], None]) -> None:
    generator = random.Random(50)
    for _ in range(50_000):
        description = bytearray(b"".join(generator.choices(PACKETS, k=generator.randint(1, 5))))
        for _ in range(generator.randint(0, 4)):
            description[generator.randrange(len(description))] = generator.randrange(256)
        accepted = ACCEPTED if generator.random() < 0.7 else b""
        assert str(broker.port) in listen_to(broker, accepted + bytes(description), generator.choice([3, 5]))
    fed("MQTT packets of a broker", 50_000)


def test_replayed_messages_leave_room_for_live_ones() -> None:
    config = MqttConfig.model_validate({"host": "127.0.0.1", "port": 1})
    will = OutgoingMessage("t", b"offline", 1, retain=True)
    connection = Connection(config, "quiet", will, Wakeup(), BrokerLimits(1), Suspects("broker"))
    room = []
    for identifier in range(FIRST):
        room.append((connection.has_room, connection.has_room_for_replayed))
        connection._messages.add(identifier, Delivery(will))
    assert room == [(True, identifier < FIRST * 3 // 4) for identifier in range(FIRST)]
    assert not connection.has_room
