"""A removed camera leaves no retained message in the broker; messages of others stay."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from edgemeta.daemon.messages.channels import Topics
from edgemeta.daemon.mqtt.limits import BrokerLimits
from edgemeta.daemon.mqtt.outbox.delivery import OutgoingMessage
from edgemeta.daemon.mqtt.removed_cameras import MOST, RemovedCameras
from edgemeta.daemon.mqtt.subscriptions import Incoming
from edgemeta.daemon.runtime.deadline import Deadline
from edgemeta.daemon.service.plan import prepare
from edgemeta.daemon.service.reload import reload
from edgemeta.daemon.service.service import Service
from rig.square_detector import save_square_detector, write_squares
from rig.waiting import wait_until
from tests.daemon.conftest import Received, broker_keys

BASE = "site/hall/edgemeta"
BOOT = "0123456789abcdef" * 2


@pytest.fixture
def serve(write_config: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Service]]:
    """Starts services in this process that wait half a second for what is retained."""
    monkeypatch.setattr("edgemeta.daemon.mqtt.removed_cameras.QUIET", 0.5)
    services: list[Service] = []
    crashes: list[BaseException] = []

    def start(**keys: Any) -> Service:
        services.append(Service(prepare(write_config(**keys)), crashes.append))
        services[-1].start()
        return services[-1]

    yield start
    for service in services:
        service.stop(Deadline(5.0))
    assert crashes == []


def keys_of(broker: Any, *cameras: str, **mqtt: Any) -> dict[str, Any]:
    return {
        "cameras": {name: {"source": "synthetic://", "fps": 20} for name in cameras},
        "mqtt": broker_keys(broker, base_topic=BASE, **mqtt),
    }


def retained(make_subscriber: Any, broker: Any) -> dict[str, bytes]:
    """Everything that the broker has retained; a message of our own says when all has come."""
    subscriber = make_subscriber(broker.port)
    subscriber.publish("mark", b"1")
    subscriber.wait("mark")
    return {message.topic: message.payload for message in subscriber.received if message.retained}


def status(device: str, camera: str, **other: Any) -> bytes:
    """As much of a retained message as says whose it is, and more."""
    fields = {"schema_version": 1, "device": device, "boot": BOOT, "camera": camera, "of_another_version": True}
    return json.dumps(fields | other).encode()


@pytest.mark.gate("8 s each: the service is started twice, and messages must stay away")
@pytest.mark.parametrize("version", [5, "3.1.1"])
def test_a_camera_removed_by_a_restart_leaves_nothing(
    broker: Any, subscriber: Any, make_subscriber: Any, write_config: Any, run_daemon: Any, version: Any
) -> None:
    keys = keys_of(broker, "front", "back-door", version=version)
    first = run_daemon(write_config(**keys))
    subscriber.wait("back-door/state")
    first.stop()
    topics = {f"{BASE}/test/back-door/{each}" for each in ("state", "status")}
    assert topics <= retained(make_subscriber, broker).keys()
    second = run_daemon(write_config(**keys_of(broker, "front", version=version)))
    for each in ("state", "status"):
        subscriber.wait_for(f"back-door/{each}", lambda message: message.payload == b"")
    left = retained(make_subscriber, broker)
    assert not topics & left.keys()
    assert {f"{BASE}/test/front/{each}" for each in ("state", "status")} <= left.keys()
    assert "back-door/state: cleared, it is no longer in the config" in second.said


FOREIGN = {
    f"{BASE}/test/gone/notes": status("test", "gone"),
    f"{BASE}/test/sub/gone/status": status("test", "gone"),
    f"{BASE}/other/gone/status": status("other", "gone"),
    f"{BASE}/test/theirs/status": status("other", "theirs"),
    f"{BASE}/test/words/status": b"on",
    f"{BASE}/test/number/state": b"17",
    f"{BASE}/test/list/state": b"[1]",
    f"{BASE}/test/deep/state": b"[" * 60_000,
    f"{BASE}/test/long/state": status("test", "long", more="x" * 70_000),
    f"{BASE}/test/bytes/state": b"\xff\xfe",
    f"{BASE}/test/renamed/state": status("test", "gone"),
    f"{BASE}/test/noboot/state": status("test", "noboot", boot="1"),
    f"{BASE}/test/wild/state": status("test", "+"),
    "edgemeta/test/gone/status": status("test", "gone"),
}
"""Retained by others, or not recognized as ours."""


def test_only_messages_of_this_device_about_cameras_it_has_no_more_are_cleared(
    broker: Any, subscriber: Any, make_subscriber: Any, serve: Any
) -> None:
    ours = {f"{BASE}/test/{name}/status": status("test", name) for name in ("gone", "Gone_2", "x" * 64)}
    for topic, payload in (FOREIGN | ours).items():
        subscriber.publish(topic, payload, retain=True)
    serve(**keys_of(broker, "front"))
    for topic in ours:
        subscriber.wait_for(topic, lambda message: message.payload == b"")
    left = retained(make_subscriber, broker)
    assert FOREIGN.items() <= left.items()
    assert not ours.keys() & left.keys()


@pytest.mark.gate("4 s: a thousand messages")
def test_a_burst_of_a_thousand_retained_messages(make_broker: Any, make_subscriber: Any, serve: Any) -> None:
    """Many more than the inbox holds."""
    broker = make_broker("allow_anonymous true", "max_queued_messages 0")
    broker.start()
    topics = [f"{BASE}/test/cam{number}/{each}" for number in range(600) for each in ("state", "status")]
    planter = make_subscriber(broker.port, "nothing")
    for topic in topics[:-1]:
        planter._client.publish(topic, status("test", topic.split("/")[-2]), 1, retain=True)
    planter.publish(topics[-1], status("test", "cam599"), retain=True)
    wait_until(lambda: len(retained(make_subscriber, broker)) >= len(topics), "all to be retained")
    serve(**keys_of(broker, "front"))
    wait_until(lambda: not retained(make_subscriber, broker).keys() & set(topics), "all to be cleared", 60)


def test_a_clearing_is_sent_once_and_not_at_every_connect(broker: Any, make_subscriber: Any, serve: Any) -> None:
    topic = f"{BASE}/test/gone/status"
    planter = make_subscriber(broker.port, "nothing")
    planter.publish(topic, status("test", "gone"), retain=True)
    service = serve(**keys_of(broker, "front"))
    wait_until(lambda: topic not in retained(make_subscriber, broker), "the clearing")
    broker.stop()
    broker.start()
    again = make_subscriber(broker.port)
    again.wait("front/frame", 20)
    assert service.parts.link.connects == 2
    assert again.on("gone/status") == []


@pytest.mark.gate("8 s: the service is started twice")
def test_home_assistant_forgets_the_camera_before_its_topics_are_emptied(
    broker: Any, subscriber: Any, write_config: Any, run_daemon: Any
) -> None:
    """A template would complain of the empty message."""
    announced = {"homeassistant": {"enabled": True}}
    first = run_daemon(write_config(**keys_of(broker, "front", "gone"), **announced))
    subscriber.wait("gone/state")
    first.stop()
    seen = len(subscriber.received)
    run_daemon(write_config(**keys_of(broker, "front"), **announced))
    for each in ("state", "status"):
        subscriber.wait_for(f"gone/{each}", lambda message: message.payload == b"")
    later = list(subscriber.received)[seen:]

    def removed(message: Received) -> bool:
        gone = message.json["cmps"].get("state_gone") if message.topic.startswith("homeassistant/") else None
        return gone == {"p": "sensor"}

    assert [removed(message) for message in later].index(True) < [message.payload for message in later].index(b"")


def test_without_permission_to_read_the_service_still_runs(
    make_broker: Any, make_subscriber: Any, tmp_path: Path, serve: Any
) -> None:
    (tmp_path / "acl").write_text(f"user watcher\ntopic readwrite #\npattern write {BASE}/test/#\n")
    (tmp_path / "acl").chmod(0o600)
    broker = make_broker("allow_anonymous true", f"acl_file {tmp_path / 'acl'}")
    broker.start()
    watcher = make_subscriber(broker.port, username="watcher", password="")
    watcher.publish(f"{BASE}/test/gone/status", status("test", "gone"), retain=True)
    service = serve(**keys_of(broker, "front"))
    (reading,) = (each for each in service.parts.link.listeners if isinstance(each, RemovedCameras))
    wait_until(lambda: service.parts.link.connected and reading._over_at is None, "the reading's end")
    watcher.wait("front/frame", 5)
    assert [message.payload for message in watcher.on("gone/status")] != [b""]


class Connection:
    """Answers subscriptions as it is told, and keeps them."""

    def __init__(self, answered: bool = True, refused: bool = False, wildcards: bool = True) -> None:
        self.limits = BrokerLimits(qos=1, wildcards=wildcards)
        self.filters: list[str] = []
        self.ended: list[str] = []
        self._answered, self._refuses = answered, refused
        self.receive: Callable[[Incoming], None] | None = None

    @property
    def unanswered(self) -> list[str]:
        return [] if self._answered else self.filters

    @property
    def refused(self) -> list[str]:
        return self.filters if self._refuses else []

    def read_retained(self, topic_filter: str, receive: Callable[[Incoming], None]) -> None:
        self.filters.append(topic_filter)
        self.receive = receive

    def unsubscribe(self, topic_filter: str) -> None:
        self.ended.append(topic_filter)


class Sender:
    def __init__(self) -> None:
        self.sent: list[OutgoingMessage] = []

    def send(self, message: OutgoingMessage) -> None:
        self.sent.append(message)


KEPT = {"a/b/dev/front/count/yard/cat", "a/b/dev/front/snapshot"}


@pytest.fixture
def removed(monkeypatch: pytest.MonkeyPatch) -> tuple[Sender, RemovedCameras]:
    monkeypatch.setattr("edgemeta.daemon.mqtt.removed_cameras.QUIET", 0.0)
    sender = Sender()
    return sender, RemovedCameras(sender, Topics("a/b", "dev"), ["front"], lambda: KEPT)


def test_a_refused_subscription_is_not_asked_for_again(removed: tuple[Sender, RemovedCameras]) -> None:
    _, cameras = removed
    refusing, later = Connection(refused=True), Connection()
    cameras.connected(refusing, refusing.limits)
    kinds = ("settings", "state", "status", "motion", "crop", "count/#")
    assert {f"a/b/dev/+/{each}" for each in kinds} <= set(refusing.filters)
    cameras.poll(refusing)
    cameras.disconnected(refusing)
    cameras.connected(later, later.limits)
    assert later.filters == []


def test_a_broken_connection_s_findings_are_left_and_at_most_so_many_are_cleared(
    removed: tuple[Sender, RemovedCameras],
) -> None:
    sender, cameras = removed
    for ends_early in (True, False):
        connection = Connection()
        cameras.connected(connection, connection.limits)
        for number in range(MOST + 5):
            topic = f"a/b/dev/cam{number}/status"
            cameras.take(Incoming(topic, status("dev", f"cam{number}"), retained=not number % 2 or not ends_early))
        if not ends_early:
            cameras.poll(connection)
        cameras.disconnected(connection)
        assert len(sender.sent) == (0 if ends_early else MOST)
    assert connection.ended == connection.filters
    assert all((message.payload, message.retain) == (b"", True) for message in sender.sent)


def test_without_subscriptions_with_wildcards_nothing_is_read(removed: tuple[Sender, RemovedCameras]) -> None:
    sender, cameras = removed
    connection = Connection(wildcards=False)
    cameras.connected(connection, connection.limits)
    cameras.poll(connection)
    cameras.disconnected(connection)
    assert (connection.filters, connection.ended, sender.sent) == ([], [], [])


def test_nothing_is_cleared_before_every_subscription_is_answered(removed: tuple[Sender, RemovedCameras]) -> None:
    sender, cameras = removed
    connection = Connection(answered=False)
    cameras.connected(connection, connection.limits)
    cameras.take(Incoming("a/b/dev/gone/status", status("dev", "gone"), retained=True))
    filters = list(connection.filters)
    for _ in filters[1:]:
        connection.filters.pop(0)  # is answered
        cameras.poll(connection)
        assert (connection.ended, sender.sent) == ([], [])
    connection.filters.pop(0)
    cameras.poll(connection)
    assert connection.ended == filters
    assert [message.topic for message in sender.sent] == [
        f"a/b/dev/gone/{each}" for each in ("crop", "snapshot", "status")
    ]


def test_what_options_retained_that_are_off_now_is_cleared(removed: tuple[Sender, RemovedCameras]) -> None:
    sender, cameras = removed
    connection = Connection()
    cameras.connected(connection, connection.limits)
    assert "a/b/dev/+/snapshot" not in connection.filters  # it would bring the picture that is retained
    assert {"a/b/dev/+/crop", "a/b/dev/+/motion", "a/b/dev/+/count/#"} <= set(connection.filters)
    motion = json.dumps({"schema_version": 2, "device": "dev", "boot": BOOT, "camera": "front", "motion": True})
    for topic, payload in {
        "front/count/yard/cat": b"1",
        "front/count/dog": b"12",
        "front/count/notes": b"theirs",
        "gone/count/cat": b"1",
        "front/crop": b"\xff\xd8\xff\xe0",
        "gone/crop": b"a note",
        "front/motion": motion.encode(),
        "back/motion": motion.encode(),
    }.items():
        cameras.take(Incoming(f"a/b/dev/{topic}", payload, retained=True))
    cameras.poll(connection)
    expected = [f"a/b/dev/{each}" for each in ("front/count/dog", "front/crop", "front/motion", "gone/count/cat")]
    assert [message.topic for message in sender.sent] == expected
    assert all(message.payload == b"" and message.retain for message in sender.sent)


def test_after_a_change_of_the_config_it_is_read_again(removed: tuple[Sender, RemovedCameras]) -> None:
    _, cameras = removed
    connection = Connection()
    cameras.connected(connection, connection.limits)
    cameras.poll(connection)
    first = list(connection.filters)
    cameras.poll(connection)
    assert connection.filters == first
    cameras.read_again()
    cameras.poll(connection)
    assert connection.filters == first * 2
    cameras.disconnected(connection)
    cameras.read_again()
    cameras.poll(connection)
    assert connection.filters == first * 2


@pytest.mark.gate("7 s: a service that runs with options and without")
def test_options_switched_off_leave_nothing(
    broker: Any, make_subscriber: Any, serve: Any, write_config: Any, tmp_path: Path
) -> None:
    """Pictures above all: a privacy mask that was added later does not cover one that is retained."""
    picture = tmp_path / "squares.png"
    write_squares(picture, {(1, 1): "red", (5, 3): "green"})
    zone = {"polygon": [[0, 0], [1, 0], [1, 1], [0, 1]]}
    camera = {"source": str(picture), "fps": 20, "loop": True, "zones": {"yard": zone}, "motion": {"publish": True}}
    model = save_square_detector(tmp_path / "squares.safetensors")
    keys = {"model": str(model), "mqtt": broker_keys(broker, base_topic=BASE)}
    stale = f"{BASE}/test/front/count/unicorn"
    make_subscriber(broker.port, "nothing").publish(stale, b"1", retain=True)
    service = serve(
        **keys,
        cameras={"front": camera},
        publish={"plain_counts": True},
        snapshots={"interval": 0.5, "events": True, "retain": True},
    )
    topics = {f"{BASE}/test/front/{each}" for each in ("count/red", "count/yard/green", "snapshot", "crop", "motion")}
    wait_until(lambda: topics <= retained(make_subscriber, broker).keys(), "what options retain")
    wait_until(lambda: stale not in retained(make_subscriber, broker), "a label that nothing counts to be cleared")
    assert topics <= retained(make_subscriber, broker).keys()
    reload(write_config(**keys, cameras={"front": {**camera, "motion": {}}}), service, "command", lambda: None)
    wait_until(lambda: not topics & retained(make_subscriber, broker).keys(), "all to be cleared")
    assert f"{BASE}/test/front/state" in retained(make_subscriber, broker)
