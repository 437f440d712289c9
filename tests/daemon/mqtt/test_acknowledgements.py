"""The link where acknowledgements do not come: a real mosquitto, and a proxy that swallows its packets."""

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from edgemeta.daemon.messages.broker_state import BrokerState
from edgemeta.daemon.mqtt.outbox.delivery import OutgoingMessage
from edgemeta.daemon.runtime.clock import NS
from rig.mqtt_proxy import SUBACK, MqttProxy
from rig.waiting import wait_until

DEADLINE = 0.6
"""Seconds of `mqtt.ack_timeout` here."""


@pytest.fixture
def network(broker: Any) -> Iterator[MqttProxy]:
    network = MqttProxy(broker.port)
    yield network
    network.close()


@pytest.fixture
def slow_link(network: MqttProxy, make_link: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Ten acknowledgements a second; the line counts as slow after one second and as fast after two."""
    monkeypatch.setattr("edgemeta.daemon.mqtt.outbox.lateness.SLOW_AFTER_NS", NS)
    monkeypatch.setattr("edgemeta.daemon.mqtt.outbox.lateness.FAST_AFTER_NS", 2 * NS)
    link = make_link(network.port)
    wait_until(lambda: link.status.state is BrokerState.CONNECTED, "the link")
    network.delay(0.1)
    return link


@pytest.fixture
def late_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgemeta.daemon.mqtt.status_tracker.LATE_AFTER", 0.1)


def number(value: int) -> OutgoingMessage:
    return OutgoingMessage("edgemeta/test/numbers", b"%d" % value, 1, retain=False, kept=True)


def numbers(messages: list[Any]) -> list[int]:
    return [int(message.payload) for message in messages]


def waiting(link: Any) -> int:
    count: int = link._outbox.stats.waiting
    return count


def connect(make_link: Any, network: MqttProxy, **keys: Any) -> Any:
    link = make_link(network.port, ack_timeout=DEADLINE, **keys)
    wait_until(lambda: link.status.state is BrokerState.CONNECTED, "the link")
    return link


@pytest.mark.gate("7 s: deadlines that pass")
@pytest.mark.parametrize("swallowed", [3, 25, 120])
@pytest.mark.parametrize("version", [5, "3.1.1"])
def test_messages_whose_acknowledgements_are_swallowed_are_sent_again(
    network: MqttProxy, subscriber: Any, make_link: Any, swallowed: int, version: Any, caplog: Any
) -> None:
    """With 25 gone, no late message found room; with 100, none at all; with 3, three waited for ever."""
    link = connect(make_link, network, version=version)
    network.drop_packets(swallowed)
    with caplog.at_level("INFO", "edgemeta.daemon.mqtt"):
        for value in range(150):
            link.send(number(value))
        wait_until(lambda: waiting(link) == 0, "acknowledgements of all messages")
        wait_until(lambda: link.status.state is BrokerState.CONNECTED, "the link")
    assert network.swallowed == swallowed
    assert sorted(set(numbers(subscriber.on("numbers")))) == list(range(150))
    assert sorted(int(payload) for payload in link.delivered.payloads) == list(range(150))
    assert link.connects >= 2
    assert link.stats.failures.unacknowledged == link.connects - 1
    assert f"has not acknowledged a message for {DEADLINE:g} s" in caplog.text
    assert "connected to broker" in caplog.text


def test_a_resent_message_never_overtakes_a_live_one(network: MqttProxy, subscriber: Any, make_link: Any) -> None:
    """First deliveries come in the order in which the messages were made, whatever comes again."""
    link = connect(make_link, network)
    network.drop_packets(5)
    for value in range(200):
        link.send(number(value))
        time.sleep(0.01)
    wait_until(lambda: waiting(link) == 0, "acknowledgements of all messages")
    firsts = list(dict.fromkeys(numbers(subscriber.on("numbers"))))
    connected_again = firsts.index(max(firsts))
    live = [
        int(delivery.message.payload)
        for delivery in link.delivered.deliveries
        if not delivery.replayed and delivery.message.kept
    ]
    assert live == sorted(live)
    assert connected_again == len(firsts) - 1, "the newest message waited for older ones"


def test_the_state_is_unacknowledged_until_the_first_acknowledgement(
    network: MqttProxy, make_link: Any, late_soon: None, caplog: Any
) -> None:
    link = connect(make_link, network)
    states = Recorder(lambda: link.status.state)
    with caplog.at_level("INFO", "edgemeta.daemon.mqtt"):
        network.drop_packets()
        link.send(number(1))
        wait_until(lambda: link.status.state is BrokerState.UNACKNOWLEDGED, "the state")
        reason = link.status.reason
        assert reason is not None
        assert "acknowledge" in reason
        states.watch(lambda: link.connects >= 4)
        network.pass_all()
        wait_until(lambda: link.status.state is BrokerState.CONNECTED, "the link")
    assert set(states.seen) == {BrokerState.UNACKNOWLEDGED}, "a broker that acknowledges nothing counted as connected"
    warnings = [record for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == 1, "said again while it stayed the same"
    assert caplog.text.count("connected to broker") == 1
    wait_until(lambda: waiting(link) == 0, "acknowledgements of all messages")


def test_a_broker_frozen_for_a_moment_is_late_and_then_connected_again(
    broker: Any, network: MqttProxy, make_link: Any, late_soon: None
) -> None:
    link = connect(make_link, network, version="3.1.1")
    link._status._ack_timeout = 60.0
    broker.freeze()
    link.send(number(1))
    wait_until(lambda: link.status.state is BrokerState.UNACKNOWLEDGED, "the state")
    broker.thaw()
    wait_until(lambda: link.status.state is BrokerState.CONNECTED, "the link")
    assert link.connects == 1


def test_acknowledgements_that_come_slowly_but_in_turn_are_waited_for(
    network: MqttProxy, make_link: Any, late_soon: None
) -> None:
    """A window of messages may take longer than the deadline over a slow line: only its oldest message counts."""
    link = connect(make_link, network)
    link._status._ack_timeout = 1.8
    network.delay(0.1)
    for value in range(20):
        link.send(number(value))
    wait_until(lambda: waiting(link) == 0, "acknowledgements of all messages")
    assert link.connects == 1


def test_a_subscription_that_is_not_acknowledged_is_asked_for_again(
    network: MqttProxy, make_subscriber: Any, broker: Any, make_link: Any, tmp_path: Any
) -> None:
    heard: list[bytes] = []
    network.drop_packets(1, SUBACK)
    link = make_link(
        network.port, ack_timeout=DEADLINE, subscriptions={"edgemeta/test/cmd/#": lambda m: heard.append(m.payload)}
    )
    wait_until(lambda: link.connects >= 2, "the second connection")
    wait_until(lambda: link.status.state is BrokerState.CONNECTED, "the link")
    make_subscriber(broker.port).publish("edgemeta/test/cmd/reload", b"{}")
    wait_until(lambda: heard == [b"{}"], "the command")


class Recorder:
    """Keeps what a value became."""

    def __init__(self, look: Callable[[], Any]) -> None:
        self._look = look
        self.seen: list[Any] = []

    def watch(self, end: Callable[[], bool]) -> None:
        def looked() -> bool:
            value = self._look()
            if not self.seen or self.seen[-1] != value:
                self.seen.append(value)
            return end()

        wait_until(looked, "the end of what is watched")


@pytest.mark.gate("a line must be slow for seconds")
def test_on_a_slow_line_states_go_first_and_late_frames_are_historical(
    network: MqttProxy, subscriber: Any, slow_link: Any
) -> None:
    """Ten acknowledgements a second, and twenty-five frames."""
    link = slow_link
    for value in range(200):
        payload = b'{"number": %d, "historical": false}' % value
        is_state = value % 25 == 24
        topic = "edgemeta/test/state" if is_state else "edgemeta/test/frame"
        link.send(OutgoingMessage(topic, payload, 1, retain=is_state, kept=True, gives_way=not is_state))
        time.sleep(0.04)
    wait_until(lambda: link.status.state is BrokerState.SLOW, "the state of the line")
    network.delay(0)
    wait_until(lambda: waiting(link) == 0, "all messages")
    wait_until(lambda: link.status.state is BrokerState.CONNECTED, "the line to be fast again")
    waits = [each.sent_ns - each.message.made_ns for each in link.delivered.deliveries if each.message.retain]
    assert max(waits) < NS, "a state waited behind frames"
    frames = [json.loads(message.payload) for message in subscriber.on("frame")]
    assert sorted(frame["number"] for frame in frames) == [value for value in range(200) if value % 25 != 24]
    for late in (False, True):
        numbers = [frame["number"] for frame in frames if frame["historical"] is late]
        assert numbers == sorted(numbers)
        assert numbers


@pytest.mark.gate("a line must be slow for seconds")
def test_on_a_slow_line_no_picture_is_sent_and_the_newest_follows_when_it_is_fast_again(
    network: MqttProxy, subscriber: Any, slow_link: Any
) -> None:
    link = slow_link

    def send_frames(end: Callable[[], bool]) -> None:
        def sent() -> bool:
            payload = b'{"number": 1, "historical": false}'
            link.send(OutgoingMessage("edgemeta/test/frame", payload, 1, retain=False, kept=True, gives_way=True))
            time.sleep(0.03)
            return end()

        wait_until(sent, "the end of the frames")

    send_frames(lambda: link.status.state is BrokerState.SLOW)
    for number in (1, 2):
        link.send(OutgoingMessage("edgemeta/test/snapshot", b"\xff%d" % number, 1, retain=False, picture=True))
    until = time.monotonic() + 1
    send_frames(lambda: time.monotonic() > until)
    assert subscriber.on("snapshot") == []
    network.delay(0)
    assert [picture.payload for picture in subscriber.wait("snapshot")] == [b"\xff2"]
    assert link.connects == 1
