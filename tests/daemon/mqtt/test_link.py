"""The link, against a real mosquitto."""

import signal
import socket
import threading
import time
from typing import Any

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from edgemeta.daemon.messages.broker_state import BrokerState
from edgemeta.daemon.mqtt.connection import Connection
from edgemeta.daemon.mqtt.outbox.delivery import OutgoingMessage
from edgemeta.daemon.mqtt.outbox.errors import StoreError
from edgemeta.daemon.mqtt.outbox.store import Store
from rig.waiting import wait_until


def number(value: int, qos: int = 1) -> OutgoingMessage:
    return OutgoingMessage("edgemeta/test/numbers", str(value).encode(), qos, retain=False, kept=True)


def connected(link: Any) -> None:
    """Wait for the broker."""
    wait_until(lambda: link.connected, "the connection")


def waiting(link: Any) -> int:
    count: int = link._outbox.stats.waiting
    return count


@pytest.mark.parametrize("version", [5, "3.1.1"])
@pytest.mark.parametrize("qos", [0, 1])
def test_messages_arrive_in_order_and_are_reported_as_acknowledged(
    broker: Any, subscriber: Any, make_link: Any, version: Any, qos: int
) -> None:
    link = make_link(broker.port, version=version)
    connected(link)
    for value in range(200):
        link.send(number(value, qos))
    received = subscriber.wait("numbers", 200)
    assert [int(message.payload) for message in received] == list(range(200))
    assert link.flush(60.0)
    assert link.delivered.payloads == [message.payload for message in received]
    assert waiting(link) == 0
    assert link.stats.published == 201  # `online`, too


def test_messages_of_several_threads_are_complete_and_in_order_after_the_broker_stalls(
    broker: Any, subscriber: Any, make_link: Any
) -> None:
    """A broker that reads nothing leaves packets half written."""
    link = make_link(broker.port)
    connected(link)
    filling = b"." * 70_000  # 7 MB together: more than the sockets hold, less than the outbox does

    def send(sender: int) -> None:
        for value in range(25):
            link.send(
                OutgoingMessage(f"edgemeta/test/{sender}/numbers", b"%d" % value + filling, 1, retain=False, kept=True)
            )

    broker.process.send_signal(signal.SIGSTOP)
    threads = [threading.Thread(target=send, args=(sender,)) for sender in range(4)]
    for thread in threads:
        thread.start()
    time.sleep(0.2)
    broker.process.send_signal(signal.SIGCONT)
    for thread in threads:
        thread.join()
    subscriber.wait("numbers", 100)
    for sender in range(4):
        received = subscriber.on(f"/{sender}/numbers")
        assert [int(message.payload.removesuffix(filling)) for message in received] == list(range(25))
    assert link.flush(60.0)
    assert (waiting(link), link.connects) == (0, 1)


def test_a_stop_sends_what_the_disk_has_not_taken(broker: Any, make_link: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits on disk can be sent by the next start; what is in memory only, not."""

    def fail(*_arguments: object, **_keys: object) -> None:
        raise StoreError("the disk fails")

    broker.stop()
    monkeypatch.setattr(Store, "add", fail)
    link = make_link(broker.port)
    for value in range(200):
        link.send(number(value))
    broker.start()
    connected(link)
    link.close(30.0)
    assert [int(payload) for payload in link.delivered.payloads] == list(range(200))


def test_messages_of_qos_0_do_not_count_as_sent_while_they_wait_in_the_kernel(broker: Any, make_link: Any) -> None:
    """Megabytes there would be sent as live messages long after they were made."""
    link = make_link(broker.port)
    connected(link)
    broker.process.send_signal(signal.SIGSTOP)
    try:
        for _ in range(100):
            link.send(OutgoingMessage("edgemeta/test/numbers", bytes(20_000), 0, retain=False, kept=True))
        wait_until(lambda: link.stats.published > 1, "a first message")
        time.sleep(0.3)
        assert link.stats.published < 60
    finally:
        broker.process.send_signal(signal.SIGCONT)
    assert link.flush(60.0)
    assert link.stats.published == 101


def test_only_the_links_thread_sends_and_receives(broker: Any, make_link: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever sends puts a message into a queue and wakes that thread."""
    callers: set[str] = set()

    def note_callers_of(name: str) -> None:
        original = getattr(Connection, name)

        def call(*arguments: Any) -> Any:
            callers.add(threading.current_thread().name)
            return original(*arguments)

        monkeypatch.setattr(Connection, name, call)

    for name in ("publish", "wait", "process"):
        note_callers_of(name)
    link = make_link(broker.port)
    connected(link)
    threads = [threading.Thread(target=lambda: [link.send(number(value)) for value in range(50)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert link.flush(60.0)
    assert (len(link.delivered.payloads), callers) == (200, {"mqtt"})


def test_after_a_stall_the_broker_answers_at_once_again(broker: Any, make_link: Any) -> None:
    """Two answers at once, and TCP would hold each later one back until our next message acknowledged the last."""
    link = make_link(broker.port)
    connected(link)

    sent: list[None] = []

    def send() -> None:
        sent.append(link.send(number(0)))
        time.sleep(0.025)  # less than TCP waits for data that could carry its acknowledgement

    def soon_acknowledged() -> int:
        """Number of 37 messages after a stall that are acknowledged before the next one is sent."""
        broker.process.send_signal(signal.SIGSTOP)
        for _ in range(3):
            send()
        broker.process.send_signal(signal.SIGCONT)
        soon = 0
        for _ in range(37):
            send()
            soon += len(link.delivered.payloads) == len(sent)
        return soon

    assert any(soon_acknowledged() > 10 for _ in range(5)), (
        "each message was acknowledged only when the next one was sent"
    )


def test_after_a_flush_every_message_is_counted(broker: Any, make_link: Any) -> None:
    """The last stats of a stop are made when all is flushed: a message between the two would look lost."""
    link = make_link(broker.port)
    connected(link)
    counting, goes_on, count = threading.Event(), threading.Event(), link.delivered.acknowledged

    def slow(delivery: Any) -> None:
        if delivery.message.kept:
            counting.set()
            assert goes_on.wait(60)
        count(delivery)

    link.delivered.acknowledged = slow
    link.send(number(1))
    assert counting.wait(60)
    try:
        assert not link.flush(0.2)
    finally:
        goes_on.set()
    assert link.flush(60)
    assert link.delivered.payloads == [b"1"]


def test_online_at_connect_and_offline_at_close(broker: Any, subscriber: Any, make_link: Any) -> None:
    link = make_link(broker.port)
    subscriber.wait("availability")
    link.close(2.0)
    assert [message.payload for message in subscriber.wait("availability", 2)] == [b"online", b"offline"]
    assert not link.connected


def test_the_broker_publishes_offline_when_the_connection_is_lost(broker: Any, subscriber: Any, make_link: Any) -> None:
    """A second client with the same id makes mosquitto drop the first and send its will."""
    link = make_link(broker.port, retry={"initial_delay": 3600, "max_delay": 3600})
    subscriber.wait("availability")
    make_link(broker.port, topic="edgemeta/thief/availability")
    subscriber.wait_for("test/availability", lambda message: message.payload == b"offline")
    wait_until(lambda: not link.connected, "the end of the connection")


def test_it_connects_to_a_broker_that_starts_later(make_broker: Any, make_subscriber: Any, make_link: Any) -> None:
    broker = make_broker()
    link = make_link(broker.port)
    link.send(OutgoingMessage("edgemeta/test/info", b"kept", 1, retain=True))
    assert not link.connected
    broker.start()
    connected(link)
    received = make_subscriber(broker.port).wait("info")
    assert received[0].payload == b"kept"


def test_retained_messages_come_again_after_a_broker_restarts_empty(
    broker: Any, make_subscriber: Any, make_link: Any
) -> None:
    link = make_link(broker.port)
    connected(link)
    link.send(OutgoingMessage("edgemeta/test/info", b"old", 1, retain=True))
    link.send(OutgoingMessage("edgemeta/test/info", b"new", 1, retain=True))
    assert link.flush(60.0)
    broker.stop()
    wait_until(lambda: not link.connected, "the end of the connection")
    broker.start()
    connected(link)
    assert link.connects == 2
    subscriber = make_subscriber(broker.port)
    assert subscriber.wait("info")[0].payload == b"new"
    assert subscriber.wait("availability")[0].payload == b"online"


@pytest.mark.gate("4 s: messages at a limited rate")
def test_messages_of_an_outage_are_replayed_in_order_at_the_configured_rate(broker: Any, make_link: Any) -> None:
    link = make_link(broker.port, outbox={"max_replayed_per_second": 25})
    connected(link)
    broker.stop()
    for value in range(100):
        link.send(number(value))
    wait_until(lambda: not link.connected, "the end of the connection")
    broker.start()
    connected(link)
    begun = time.monotonic()
    link.send(number(10_000))
    wait_until(lambda: b"10000" in link.delivered.payloads, "the live message")
    wait_until(lambda: waiting(link) == 0, "an empty outbox")
    assert time.monotonic() - begun > 1.0  # 100 at 25 per second, but for what went out before the outage was noticed
    late = [int(delivery.message.payload) for delivery in link.delivered.deliveries if delivery.replayed]
    assert late == list(range(late[0], 100))
    assert link.delivered.payloads.index(b"10000") < len(link.delivered.payloads) - 25, (
        "a live message waited for late ones"
    )


@pytest.mark.parametrize(
    ("keys", "expected"),
    [({}, 86400), ({"message_expiry_interval": 60}, 60), ({"message_expiry_interval": None}, None)],
)
def test_frame_messages_expire_at_the_broker_and_retained_ones_do_not(
    broker: Any, make_link: Any, keys: dict[str, Any], expected: int | None
) -> None:
    seen: dict[str, int | None] = {}
    client = paho.Client(CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)
    client.on_connect = lambda client, *_: client.subscribe("#", qos=1)
    client.on_message = lambda client, data, message: seen.update(
        {message.topic.rpartition("/")[2]: getattr(message.properties, "MessageExpiryInterval", None)}
    )
    client.connect("127.0.0.1", broker.port)
    client.loop_start()
    try:
        link = make_link(broker.port, **keys)
        link.send(OutgoingMessage("edgemeta/test/info", b"kept", 1, retain=True))
        while "numbers" not in seen:
            link.send(number(1))
            time.sleep(0.02)
        wait_until(lambda: {"info", "availability"} <= set(seen), "the retained messages")
    finally:
        client.disconnect()
        client.loop_stop()
    assert seen["info"] is None
    assert seen["availability"] is None
    left = seen["numbers"]  # mosquitto sends what is left of the time, in whole seconds
    assert left is None if expected is None else left is not None and expected - 30 <= left <= expected


def test_a_message_that_is_not_kept_is_not_sent_on_another_connection(make_broker: Any, make_link: Any) -> None:
    broker = make_broker()
    link = make_link(broker.port)
    link.send(OutgoingMessage("edgemeta/test/numbers", b"1", 1, retain=False))
    broker.start()
    connected(link)
    link.send(OutgoingMessage("edgemeta/test/numbers", b"2", 1, retain=False))
    assert link.flush(60.0)
    assert link.delivered.payloads == [b"2"]


def test_answers_on_one_topic_do_not_take_each_others_place(broker: Any, subscriber: Any, make_link: Any) -> None:
    link = make_link(broker.port)
    connected(link)
    for number in range(200):
        link.send(OutgoingMessage("edgemeta/test/resp/model", str(number).encode(), 1, retain=False))
    answers = subscriber.wait("resp/model", 200)
    assert [int(message.payload) for message in answers] == list(range(200))


def test_a_replayed_state_is_not_retained(make_broker: Any, make_subscriber: Any, make_link: Any) -> None:
    """The present state is sent at the connect; what waited is told beside it, marked and not retained."""
    broker = make_broker()
    link = make_link(broker.port, version="3.1.1")
    for state in (b"old", b"new"):
        payload = b'{"state":"' + state + b'","historical":false}'
        link.send(OutgoingMessage("edgemeta/test/state", payload, 1, retain=True, kept=True))
    broker.start()
    wait_until(lambda: len(link.delivered.deliveries) == 4, "four messages")  # online, state, and both as they were
    assert [delivery.replayed for delivery in link.delivered.deliveries] == [False, False, True, True]
    first = make_subscriber(broker.port).wait("state")[0]
    assert first.json == {"state": "new", "historical": False}


def test_a_refused_login_never_counts_as_connected(make_broker: Any, make_link: Any, caplog: Any) -> None:
    broker = make_broker("allow_anonymous false")
    broker.start()
    link = make_link(broker.port)
    with caplog.at_level("DEBUG", "edgemeta.daemon.mqtt"):
        wait_until(lambda: len(caplog.records) >= 3, "three refusals")
    assert all("refused the connection: not authorized" in record.getMessage() for record in caplog.records)
    assert not link.connected
    assert link.connects == 0
    assert link.status.state is BrokerState.REFUSED_LOGIN
    assert link.stats.failures.refused_login >= 2
    assert "not authorized" in (link.stats.last_failure or "")


@pytest.mark.parametrize("version", [5, "3.1.1"])
def test_a_login_with_the_right_password_is_accepted(
    make_broker: Any, make_link: Any, tmp_path: Any, version: Any
) -> None:
    broker = make_broker("allow_anonymous false", f"password_file {tmp_path / 'passwords'}")
    (tmp_path / "passwords").write_text(MOSQUITTO_PASSWORDS)
    (tmp_path / "passwords").chmod(0o600)
    broker.start()
    (tmp_path / "secret").write_text("open sesame\n")
    wrong = make_link(broker.port, version=version, username="ali", password="open barley")
    right = make_link(broker.port, version=version, username="ali", password_file=str(tmp_path / "secret"))
    connected(right)
    assert not wrong.connected
    assert wrong.connects == 0


# `mosquitto_passwd -b -c FILE ali "open sesame"`
MOSQUITTO_PASSWORDS = (
    "ali:$7$101$bYKwlVBOaHHOCKjh$"
    "CDLtC0N9LfOZfD6G4wy9XFSdAV2DiALqEYWeN4r+L+Z9tD8viiDwwjvVklPCTNBeYyMfCx2VNuCpejdkFe3OKQ==\n"
)


def test_messages_the_broker_refuses_are_counted_and_not_acknowledged(
    make_broker: Any, make_link: Any, tmp_path: Any, caplog: Any
) -> None:
    broker = make_broker("allow_anonymous true", f"acl_file {tmp_path / 'acl'}")
    (tmp_path / "acl").write_text("topic write edgemeta/test/availability\n")
    (tmp_path / "acl").chmod(0o600)
    broker.start()
    with caplog.at_level("WARNING", "edgemeta.daemon.mqtt"):
        link = make_link(broker.port)
        connected(link)
        for value in range(3):
            link.send(number(value))
        wait_until(lambda: link.stats.refused == 3, "three refusals")
    assert link.delivered.payloads == []
    assert waiting(link) == 0
    assert link.stats.published == 1  # `online`
    assert caplog.text.count("answer messages: not authorized on edgemeta/test/numbers") == 1


def test_a_broker_that_does_not_answer_is_disconnected(make_link: Any, monkeypatch: Any, caplog: Any) -> None:
    monkeypatch.setattr("edgemeta.daemon.mqtt.connection.ANSWER_TIMEOUT", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent, caplog.at_level("WARNING", "edgemeta.daemon.mqtt"):
        make_link(silent.getsockname()[1])
        wait_until(lambda: bool(caplog.records), "a report")
    assert "gave no answer within 0.2 s" in caplog.text


def test_a_host_name_that_leads_nowhere(make_link: Any, caplog: Any) -> None:
    host = "nowhere.invalid"
    with caplog.at_level("WARNING", "edgemeta.daemon.mqtt"):
        link = make_link(1883, host=host)
        wait_until(lambda: bool(caplog.records), "a report")
    assert f"broker {host}:1883 cannot be reached: " in caplog.text
    assert link.status.state is BrokerState.UNREACHABLE


def test_a_broker_that_stops_answering_is_left_without_a_goodbye(make_link: Any) -> None:
    """It accepts and then is silent: a DISCONNECT would cancel the will while `offline` was never taken."""
    received = bytearray()

    def serve(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            received.extend(connection.recv(4096))
            connection.sendall(bytes([0x20, 3, 0, 0, 0]))  # CONNACK of MQTT 5: accepted, no properties
            while content := connection.recv(4096):
                received.extend(content)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        broker = threading.Thread(target=serve, args=(listener,))
        broker.start()
        link = make_link(listener.getsockname()[1])
        connected(link)
        begun = time.monotonic()
        link.close(0.5)
        assert time.monotonic() - begun < 20.0
        broker.join(60)
    assert b"online" in received
    assert not received.endswith(b"\xe0\x00"), "a DISCONNECT was sent"


def test_close_does_not_wait_for_a_broker_that_is_away(make_link: Any) -> None:
    link = make_link(1)
    begun = time.monotonic()
    link.close(60.0)
    assert time.monotonic() - begun < 30.0
    assert "mqtt" not in [thread.name for thread in threading.enumerate()]
