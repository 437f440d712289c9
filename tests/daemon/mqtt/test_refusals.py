"""Messages that the broker refuses: for now, and for good. Against a real mosquitto behind a proxy."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from edgemeta.daemon.mqtt.answers import Answer, Outcome
from edgemeta.daemon.mqtt.outbox.delivery import OutgoingMessage
from edgemeta.daemon.mqtt.refusals import CALM, Refusals, kind_of
from rig.mqtt_proxy import SUBACK, MqttProxy
from rig.waiting import wait_until

NOT_AUTHORIZED = Answer(Outcome.REFUSED, "not authorized")
QUOTA = Answer(Outcome.POSTPONED, "quota exceeded")


@pytest.fixture
def network(broker: Any) -> Iterator[MqttProxy]:
    network = MqttProxy(broker.port)
    yield network
    network.close()


@pytest.fixture(autouse=True)
def retried_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgemeta.daemon.mqtt.refusals.RETRY_FIRST", 0.1)
    monkeypatch.setattr("edgemeta.daemon.mqtt.refusals.RETRY_CAP", 0.2)


def number(value: int, topic: str = "numbers") -> OutgoingMessage:
    return OutgoingMessage(f"edgemeta/test/{topic}", b"%d" % value, 1, retain=False, kept=True)


def connect(make_link: Any, network: MqttProxy) -> Any:
    link = make_link(network.port)
    wait_until(lambda: link.stats.published == 1, "`online`")
    return link


@pytest.mark.parametrize("reason", [0x80, 0x83, 0x91, 0x97])
def test_messages_that_are_refused_for_now_are_sent_later_in_order(
    network: MqttProxy, subscriber: Any, make_link: Any, reason: int
) -> None:
    link = connect(make_link, network)
    network.refuse(reason)
    for value in range(50):
        link.send(number(value))
    wait_until(lambda: network.refused >= 3, "another attempt")
    assert link.flush(60), "those in flight were answered, too"
    assert link.stats.refuses.startswith("refuses for now")
    network.refuse(None)
    wait_until(lambda: len(link.delivered.payloads) == 50, "acknowledgements of all")
    assert link.delivered.payloads == [b"%d" % value for value in range(50)]
    assert (link.stats.refused, link._outbox.stats.waiting) == (0, 0)
    assert {message.payload for message in subscriber.on("numbers")} == set(link.delivered.payloads)


def test_of_a_topic_that_is_refused_for_now_one_message_at_a_time_is_sent(network: MqttProxy, make_link: Any) -> None:
    link = connect(make_link, network)
    network.refuse(0x97)
    link.send(number(0))
    wait_until(lambda: network.refused >= 2, "another attempt")
    seen = network.refused
    for value in range(1, 200):
        link.send(number(value))
    wait_until(lambda: network.refused >= seen + 3, "more attempts")
    assert network.refused < seen + 20


def test_a_retained_message_that_is_refused_for_now_is_sent_again(
    network: MqttProxy, make_subscriber: Any, broker: Any, make_link: Any
) -> None:
    link = connect(make_link, network)
    network.refuse(0x97)
    link.send(OutgoingMessage("edgemeta/test/info", b"old", 1, retain=True))
    wait_until(lambda: network.refused >= 2, "another attempt")
    network.refuse(None)
    wait_until(lambda: link.stats.published == 2, "its acknowledgement")
    assert make_subscriber(broker.port).wait("info")[0].payload == b"old"


def test_a_state_that_was_refused_for_now_is_retained_afterwards(
    network: MqttProxy, make_subscriber: Any, broker: Any, make_link: Any
) -> None:
    """The replayed one is not; a subscriber that comes later is to find the newest."""
    link = connect(make_link, network)
    network.refuse(0x97)
    for value in (b'{"state":1,"historical":false}', b'{"state":2,"historical":false}'):
        link.send(OutgoingMessage("edgemeta/test/front/state", value, 1, retain=True, kept=True))
    wait_until(lambda: network.refused >= 2, "the refusals")
    make_subscriber(broker.port).publish("edgemeta/test/front/state", b"", retain=True)  # the first came through
    network.refuse(None)
    wait_until(lambda: len(link.delivered.deliveries) == 4, "`online`, both states, and the newest again")
    found = make_subscriber(broker.port).wait_for("front/state", lambda message: message.retained)
    assert found.json == {"state": 2, "historical": False}


def test_what_was_refused_for_now_waits_for_the_next_connection(network: MqttProxy, make_link: Any) -> None:
    link = connect(make_link, network)
    network.refuse(0x97)
    for value in range(5):
        link.send(number(value))
    wait_until(lambda: network.refused >= 5, "the refusals")
    assert link.flush(60), "a stop would wait for what is refused"
    network.refuse(None)
    network.reset()
    network.restore(forget=False)
    wait_until(lambda: len(link.delivered.payloads) == 5, "acknowledgements of all")


def test_a_message_that_is_refused_for_good_is_counted_and_lost(
    network: MqttProxy, make_link: Any, caplog: Any
) -> None:
    link = connect(make_link, network)
    network.refuse(0x87)
    with caplog.at_level(logging.WARNING, "edgemeta.daemon.mqtt"):
        for value in range(5):
            link.send(number(value, "front/frame"))
        wait_until(lambda: link.stats.refused == 5, "the refusals")
    assert len(link.delivered.refusals) == 5
    assert link._outbox.stats.waiting == 0
    assert link.refuses_results
    assert link.stats.refuses == "refuses frame messages: not authorized"
    (line,) = caplog.messages
    assert line.endswith("refuses frame messages: not authorized on edgemeta/test/front/frame")


def test_beginning_and_end_of_refusals_are_logged_for_each_kind_of_message(caplog: Any) -> None:
    refusals = Refusals("host:1883")
    with caplog.at_level(logging.WARNING, "edgemeta.daemon.mqtt"):
        for second, camera in enumerate(("a", "b", "a", "b")):
            refusals.refused(f"x/y/{camera}/frame", NOT_AUTHORIZED, second)
        refusals.refused("x/y/stats", NOT_AUTHORIZED, 3.0)
        assert refusals.problem == "refuses frame, stats messages: not authorized"
        refusals.accepted("x/y/a/frame")
        refusals.poll(3.0 + 2 * CALM)
        assert refusals.of_results, "b is still refused"
        refusals.accepted("x/y/b/frame")
        refusals.poll(3.0 + CALM / 2)
        assert refusals.of_results, "too soon"
        refusals.poll(3.0 + 2 * CALM)
    assert not refusals.of_results
    assert refusals.problem == "refuses stats messages: not authorized"
    assert caplog.messages == [
        "broker host:1883 refuses frame messages: not authorized on x/y/a/frame",
        "broker host:1883 refuses stats messages: not authorized on x/y/stats",
        "broker host:1883 accepts frame messages again, 4 were refused",
    ]


def test_another_reason_is_logged_and_another_kind_of_refusal_too(caplog: Any) -> None:
    refusals = Refusals("host:1883")
    for answer in (QUOTA, QUOTA, NOT_AUTHORIZED, NOT_AUTHORIZED):
        refusals.refused("x/y/a/frame", answer, 0.0)
    assert len(caplog.messages) == 2


def test_kinds_of_topics() -> None:
    topics = {
        "x/y/front/frame": "frame",
        "x/y/stats": "stats",
        "x/y/availability": "availability",
        "homeassistant/device/edgemeta-y/config": "discovery",
        "x/y/resp/model": "answer",
        "x/y/resp/me": "answer",
    }
    assert {topic: kind_of(topic) for topic in topics} == topics


def test_a_subscription_that_is_refused_for_now_is_tried_again(
    network: MqttProxy, broker: Any, make_subscriber: Any, make_link: Any, monkeypatch: Any, caplog: Any
) -> None:
    monkeypatch.setattr("edgemeta.daemon.mqtt.subscriber.SUBSCRIBE_AGAIN_AFTER", 0.1)
    heard: list[bytes] = []
    network.refuse(0x97, SUBACK)
    with caplog.at_level(logging.WARNING, "edgemeta.daemon.mqtt"):
        link = make_link(network.port, subscriptions={"edgemeta/test/cmd/#": lambda each: heard.append(each.payload)})
        wait_until(lambda: network.refused >= 3, "more attempts")
        assert link.stats.refuses == "refuses for now a subscription to edgemeta/test/cmd/#: quota exceeded"
        network.refuse(None, SUBACK)
        wait_until(lambda: link.stats.refuses is None, "its end")
    make_subscriber(broker.port).publish("edgemeta/test/cmd/reload", b"{}")
    wait_until(lambda: heard == [b"{}"], "the command")
    assert len(caplog.messages) == 2
    assert caplog.messages[-1].endswith("accepts again a subscription to edgemeta/test/cmd/#")
