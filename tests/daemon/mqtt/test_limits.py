"""Brokers that offer less: what they say when they accept is kept, and the service works with what there is."""

import logging
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from edgemeta.daemon.messages.broker_state import BrokerState
from edgemeta.daemon.mqtt.outbox.delivery import OutgoingMessage
from rig.waiting import wait_until


def number(value: int, length: int = 0) -> OutgoingMessage:
    return OutgoingMessage("edgemeta/test/numbers", b"%d" % value + length * b".", 1, retain=False, kept=True)


@pytest.mark.parametrize("version", [5, "3.1.1"])
@pytest.mark.parametrize(
    ("line", "missing"),
    [
        ("retain_available false", "no retained messages: subscribers wait for the next one of each topic"),
        ("max_qos 0", "only QoS 0: messages may be lost on the way without a count"),
    ],
)
def test_a_broker_without_retained_messages_or_with_qos_0_only_is_used(
    make_broker: Any, make_subscriber: Any, make_link: Any, caplog: Any, line: str, missing: str, version: Any
) -> None:
    broker = make_broker("allow_anonymous true", line)
    broker.start()
    subscriber = make_subscriber(broker.port)
    with caplog.at_level(logging.WARNING, "edgemeta.daemon.mqtt"):
        link = make_link(broker.port, version=version)
        wait_until(lambda: link.status.state is BrokerState.CONNECTED, "the link")
        link.send(OutgoingMessage("edgemeta/test/info", b"kept", 1, retain=True))
        link.send(number(1))
        assert subscriber.wait("numbers")[0].payload == b"1"
        assert subscriber.wait("info")[0].payload == b"kept"
    assert missing in link.stats.missing
    assert [message for message in caplog.messages if missing in message] == caplog.messages
    assert len(caplog.messages) == 1
    assert link.connects == 1


def test_qos_0_of_the_config_holds_for_all_messages_and_the_will(make_broker: Any, make_link: Any) -> None:
    broker = make_broker("allow_anonymous true", "max_qos 0")
    broker.start()
    link = make_link(broker.port, qos=0, version="3.1.1")
    wait_until(lambda: link.status.state is BrokerState.CONNECTED, "the link")
    assert link.stats.missing is None


def test_a_message_above_the_broker_s_packet_size_is_counted_and_named_and_the_others_arrive(
    make_broker: Any, make_subscriber: Any, make_link: Any, caplog: Any
) -> None:
    broker = make_broker("allow_anonymous true", "max_packet_size 2000")
    broker.start()
    subscriber = make_subscriber(broker.port)
    with caplog.at_level(logging.WARNING, "edgemeta.daemon.mqtt"):
        link = make_link(broker.port)
        link.send(OutgoingMessage("homeassistant/device/edgemeta-test/config", 3000 * b".", 1, retain=True))
        for value, length in enumerate((0, 1900, 2000, 0)):
            link.send(number(value, length))
        subscriber.wait("numbers", 3)
    assert [message.payload[:1] for message in subscriber.on("numbers")] == [b"0", b"1", b"3"]
    wait_until(lambda: link.stats.refused == 2, "the count")
    wait_until(lambda: link._outbox.stats.waiting == 0, "acknowledgements")
    assert link.connects == 1
    why = "larger than the broker's maximum packet size of 2000 bytes"
    assert f"refuses discovery messages: {why} on homeassistant/device/edgemeta-test/config" in caplog.text
    assert "another client" not in caplog.text


@pytest.fixture
def silent() -> Iterator[Callable[[bytes], int]]:
    """Starts brokers that answer each CONNECT with the same bytes."""
    listeners: list[socket.socket] = []

    def start(answer: bytes) -> int:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(4096)
                    connection.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        return int(listener.getsockname()[1])

    yield start
    for listener in listeners:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def test_a_broker_of_mqtt_3_1_1_only_leads_to_the_key(silent: Any, make_link: Any, monkeypatch: Any) -> None:
    link = make_link(silent(b"\x20\2\0\1"))
    wait_until(lambda: link.status.reason is not None, "the reason")
    assert link.status.reason.endswith("refused the connection: unsupported protocol version, see `mqtt.version`")
    monkeypatch.setattr("edgemeta.daemon.mqtt.connection.ANSWER_TIMEOUT", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        link = make_link(mute.getsockname()[1])
        wait_until(lambda: link.status.reason is not None, "the reason")
    assert "one that speaks MQTT 3.1.1 only may be silent (see `mqtt.version`)" in link.status.reason


@pytest.mark.parametrize(("code", "passes"), [(0x88, True), (0x97, True), (0x87, False), (0x8A, False)])
def test_a_refusal_of_a_moment_is_retried_soon(silent: Any, make_link: Any, code: int, passes: bool) -> None:
    link = make_link(silent(bytes([0x20, 3, 0, code, 0])), retry={"initial_delay": 0.05, "max_delay": 3600})
    wait_until(lambda: sum(dict(link.stats.failures).values()) >= (3 if passes else 1), "attempts")
    assert (sum(dict(link.stats.failures).values()) > 1) == passes
