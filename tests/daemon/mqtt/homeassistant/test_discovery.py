"""Home Assistant at a real broker finds the device, sees what it sees, and forgets what is no more."""

import json
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgemeta.daemon.config.config import Config
from edgemeta.daemon.config.homeassistant import HomeAssistantConfig
from edgemeta.daemon.messages.channels import Topics
from edgemeta.daemon.mqtt.homeassistant.discovery import LARGEST_MARKED, STARTS_PER_SECOND, Discovery, encoded, parts
from edgemeta.daemon.mqtt.homeassistant.entities import CameraView, DeviceView, announcement, view_of
from edgemeta.daemon.mqtt.outbox.delivery import OutgoingMessage
from edgemeta.daemon.mqtt.subscriptions import Handler, Incoming, Limit
from edgemeta.model.file import load, save
from edgemeta.model.tasks import Classification, TaskName
from rig.square_detector import save_square_detector, write_squares
from tests.daemon.conftest import wait_for_line
from tests.daemon.mqtt.homeassistant.assistant import Assistant

TOPIC = "homeassistant/device/edgemeta-test/config"


def keys_of(broker: Any, colours: Path, *cameras: str, enabled: bool = True, **keys: Any) -> dict[str, Any]:
    return {
        "mqtt": {"host": "127.0.0.1", "port": broker.port, "retry": {"initial_delay": 0.1, "max_delay": 0.5}},
        "cameras": {name: {"source": str(colours / "0.png"), "fps": 20, "loop": True} for name in cameras},
        "homeassistant": {"enabled": enabled},
        "label_map": {"red": "warm", "green": "cold", "blue": "cold"},
        **keys,
    }


def test_every_entity_has_a_value_out_of_real_messages(
    broker: Any, listen: Any, write_config: Any, colours: Path, run_daemon: Any
) -> None:
    """Cameras with names that are awkward in templates, too. When the device leaves, none is available."""
    home = listen(broker.port)
    daemon = run_daemon(write_config(**keys_of(broker, colours, "front", "side-2_x")))
    values = {}
    for camera in ("front", "side-2_x"):
        assert home.entity(f"state_{camera}").ignored == []
        for kind in ("state", "confidence", "problem", "rate", "dropped"):
            values[kind, camera] = home.entity(f"{kind}_{camera}").value
        assert values["state", camera] == "warm"
        assert home.assistant.of(f"state_{camera}").config["options"] == ["warm", "cold"]
        assert float(values["confidence", camera]) == 100.0
        assert values["problem", camera] == "OFF"
        assert home.entity(f"model_{camera}").value == "colour"
        assert len(home.entity(f"model_{camera}").attributes["sha256"]) == 64
    assert home.entity("version").value
    assert home.entity("failures").value == "0"
    assert float(home.wait(lambda assistant: assistant.of("latency").value, "a latency")) > 0
    assert home.entity("waiting").value is not None
    assert float(home.wait(lambda assistant: float(assistant.of("rate_front").value or 0) > 0, "a rate"))
    daemon.stop()
    home.wait(lambda assistant: not any(each.is_available for each in assistant.entities.values()), "the end")


def test_a_late_state_does_not_replace_the_present_one(
    broker: Any, listen: Any, write_config: Any, colours: Path, run_daemon: Any
) -> None:
    """The camera sees another colour with every frame, also while the broker is away; those states come afterwards."""
    keys = keys_of(broker, colours, label_map={}, state={"min_frames": 1, "window_frames": 1})
    keys["cameras"]["front"] = {"source": str(colours), "fps": 30, "loop": True}
    daemon = run_daemon(write_config(**keys))
    listen(broker.port).entity("state_front")
    broker.stop()
    wait_for_line(daemon, "Connection refused")
    with daemon.paused():
        broker.start()
        home = listen(broker.port)
    home.subscriber.wait_for("front/state", lambda message: message.json["historical"])
    late = 0
    assistant = Assistant()
    for message in list(home.subscriber.received):
        before = {key: entity.value for key, entity in assistant.entities.items()}
        assistant.hear(message.topic, message.payload)
        if message.topic.endswith("front/state") and message.json["historical"]:
            late += 1
            assert assistant.of("state_front").value == before[TOPIC, "state_front"]
            assert assistant.of("state_front").ignored == []
    assert late > 0


def test_a_camera_s_entities_are_available_while_it_runs(
    broker: Any, listen: Any, write_config: Any, colours: Path, run_daemon: Any
) -> None:
    home = listen(broker.port)
    keys = keys_of(broker, colours, "good")
    keys["cameras"]["bad"] = {"source": str(colours / "none.avi")}
    run_daemon(write_config(**keys))
    problem = home.wait(lambda assistant: assistant.entities and assistant.of("problem_bad").value == "ON", "a problem")
    assert problem
    home.entity("state_good")
    assert "does not exist" in home.assistant.of("problem_bad").attributes["reason"]
    assert not home.assistant.of("state_bad").is_available
    assert home.assistant.of("problem_bad").is_available


def test_pictures_and_motion_are_entities_with_values(
    broker: Any, listen: Any, write_config: Any, colours: Path, run_daemon: Any
) -> None:
    home = listen(broker.port)
    keys = keys_of(broker, colours, "front", state={"min_frames": 1, "window_frames": 1})
    keys["snapshots"] = {"interval": 0.2, "events": True}
    keys["cameras"]["front"] |= {"source": str(colours), "fps": 10, "motion": {"publish": True}}
    run_daemon(write_config(**keys))
    assert home.entity("motion_front").value in ("ON", "OFF")
    for kind in ("snapshot", "crop"):
        image = home.wait(lambda assistant, kind=kind: assistant.of(f"{kind}_front").image, f"the {kind}")
        assert image.startswith(b"\xff\xd8")
        assert home.assistant.of(f"{kind}_front").is_available


@pytest.mark.gate("4 s: the service is started three times")
def test_removed_entities_disappear_after_a_restart(
    broker: Any, listen: Any, write_config: Any, colours: Path, run_daemon: Any
) -> None:
    """A camera goes; later discovery is switched off. Home Assistant starts between, from retained messages alone."""
    home = listen(broker.port)
    first = run_daemon(write_config(**keys_of(broker, colours, "front", "gone")))
    home.entity("state_gone")
    first.stop()
    second = run_daemon(write_config(**keys_of(broker, colours, "front")))
    home.wait(lambda assistant: (TOPIC, "state_gone") not in assistant.entities, "the camera's end")
    assert sorted(key for _, key in home.assistant.removed) == [
        "confidence_gone",
        "dropped_gone",
        "enabled_gone",
        "event_gone",
        "limit_gone",
        "model_gone",
        "problem_gone",
        "rate_gone",
        "state_gone",
        "threshold_gone",
    ]
    assert (TOPIC, "state_front") in home.assistant.entities
    second.stop()
    later = listen(broker.port)
    later.wait(lambda assistant: (TOPIC, "state_front") in assistant.entities, "what is retained")
    assert (TOPIC, "state_gone") not in later.assistant.entities
    run_daemon(write_config(**keys_of(broker, colours, "front", enabled=False)))
    home.wait(lambda assistant: not assistant.entities, "the device's end")
    later.wait(lambda assistant: not assistant.entities, "the device's end")


def test_a_reload_switches_discovery_on_and_off_and_changes_what_a_state_may_be(
    broker: Any, listen: Any, write_config: Any, colours: Path, run_daemon: Any
) -> None:
    home = listen(broker.port)
    daemon = run_daemon(write_config(**keys_of(broker, colours, "front", enabled=False)))
    home.subscriber.wait("front/state")
    assert home.catch_up().entities == {}
    write_config(**keys_of(broker, colours, "front"))
    daemon.process.send_signal(signal.SIGHUP)
    assert home.entity("state_front").value == "warm"
    write_config(**keys_of(broker, colours, "front", label_map={"red": "hot"}))
    daemon.process.send_signal(signal.SIGHUP)
    renamed = home.wait(
        lambda assistant: (entity := assistant.of("state_front")).value == "hot" and entity, "the state's new name"
    )
    assert renamed.config["options"] == ["hot", "green", "blue"]
    assert set(renamed.ignored) <= {"warm"}  # until enough frames said the new name
    write_config(**keys_of(broker, colours, "front", enabled=False))
    daemon.process.send_signal(signal.SIGHUP)
    home.wait(lambda assistant: not assistant.entities, "the device's end")


def test_objects_and_zones_appear_with_a_detection_and_disappear_with_their_zone(
    broker: Any, listen: Any, write_config: Any, colours: Path, run_daemon: Any, tmp_path: Path
) -> None:
    picture = write_squares(tmp_path / "squares.png", {(1, 1): "red", (2, 4): "red", (6, 4): "blue"})
    many = ("red", "green", "blue", *(f"label {number}" for number in range(20)))
    save_square_detector(tmp_path / "squares.safetensors", many)
    left = {"polygon": [[0, 0], [0.5, 0], [0.5, 1], [0, 1]]}
    camera = {"source": str(picture), "fps": 20, "loop": True, "zones": {"left": left}}
    keys = keys_of(broker, colours, label_map={}, model=str(tmp_path / "squares.safetensors"), objects={})
    keys["cameras"] = {"front": camera}
    home = listen(broker.port)
    daemon = run_daemon(write_config(**keys))
    total = home.entity("objects_front")
    assert total.value == "3"
    home.wait(lambda assistant: assistant.of("objects_front").attributes == {"red": 2, "blue": 1}, "the attributes")
    assert home.entity("occupancy_front.left").value == "ON"
    assert not any(key.startswith("count_") for _, key in home.assistant.entities), "23 labels, none of them named"
    write_config(**keys | {"objects": {"labels": ["red", "green"]}})
    daemon.process.send_signal(signal.SIGHUP)
    for key, value in {"count_front.red": "2", "count_front.green": "0", "count_front.left.red": "2"}.items():
        assert home.entity(key).value == value
    home.wait(lambda assistant: assistant.of("objects_front").value == "2", "without blue")
    write_config(**keys | {"objects": {"labels": ["red"]}, "cameras": {"front": {**camera, "zones": {}}}})
    daemon.process.send_signal(signal.SIGHUP)
    home.wait(lambda assistant: (TOPIC, "occupancy_front.left") not in assistant.entities, "the zone's end")
    assert sorted(key for _, key in home.assistant.removed) == [
        "count_front.green",
        "count_front.left.green",
        "count_front.left.red",
        "occupancy_front.left",
    ]


def test_another_network_brings_other_options(
    broker: Any, listen: Any, write_config: Any, colours: Path, run_daemon: Any, model_file: Path
) -> None:
    """Labels of the config that the new network does not have are a mistake; without them it takes over."""
    home = listen(broker.port)
    keys = keys_of(broker, colours, "front", swap={"shadow_frames": 2, "trial_frames": 2})
    daemon = run_daemon(write_config(**keys))
    assert home.entity("state_front").value == "warm"
    model = load(model_file)
    save(replace(model, task=Classification(("rouge", "vert", "bleu"))), model_file)
    daemon.process.send_signal(signal.SIGHUP)
    home.wait(lambda assistant: "found the label 'red', which colour does not have" in daemon.said, "the refusal")
    assert home.assistant.of("swap").value == "settled"
    write_config(**keys | {"label_map": {}})
    daemon.process.send_signal(signal.SIGHUP)
    state = home.wait(
        lambda assistant: (entity := assistant.of("state_front")).value == "rouge" and entity, "the other network"
    )
    assert state.config["options"] == ["rouge", "vert", "bleu"]
    home.wait(lambda assistant: assistant.of("swap").value == "swapped", "the end of the swap")


def test_home_assistant_s_start_and_a_broker_that_came_back_empty_are_answered(
    broker: Any, listen: Any, make_subscriber: Any, write_config: Any, colours: Path, run_daemon: Any
) -> None:
    home = listen(broker.port)
    run_daemon(write_config(**keys_of(broker, colours, "front")))
    home.entity("state_front")
    before = len(home.subscriber.on(TOPIC))
    home.subscriber._client.publish("homeassistant/status", "offline")
    home.subscriber._client.publish("homeassistant/status", "online")
    home.subscriber.wait(TOPIC, before + 1)
    broker.stop()
    broker.start()
    again = listen(broker.port)
    again.entity("state_front")


class FakeLink:
    """Keeps what is sent, and the handlers."""

    def __init__(self) -> None:
        self.sent: list[OutgoingMessage] = []
        self.handlers: dict[str, Handler] = {}
        self.rates: dict[str, int | None] = {}

    def send(self, message: OutgoingMessage) -> None:
        self.sent.append(message)

    def subscribe(self, topic_filter: str, handler: Handler, limit: Limit | None = None) -> None:
        self.handlers[topic_filter] = handler
        self.rates[topic_filter] = None if limit is None else limit.rate


@pytest.fixture
def discovery() -> tuple[FakeLink, Callable[[bool], None]]:
    """A link, and what switches its discovery on or off."""
    config = Config.model_validate({"device": "test", "cameras": {"front": {"source": "synthetic://"}}})
    link, view = FakeLink(), view_of(config, {"front": ("a",)}, {"front": "classification"})
    made = Discovery(link, HomeAssistantConfig(enabled=False), view)
    return link, lambda enabled: made.update(enabled, view)


JUNK = [
    b"",
    b"\xff",
    b"{",
    b"[]",
    b"1",
    b'{"cmps": 1}',
    b'{"cmps": {"a": {"p": "sensor", "name": "x"}}}',
    b'{"o": {"name": "zigbee2mqtt"}, "cmps": {"a": {"p": "sensor", "name": "x"}}}',
    b'{"o": {"name": "edgemeta"}, "cmps": {"a": {"p": ["sensor"], "x": 1}, "b": 1, "c": {"p": "light", "x": 1}}}',
    b"[" * 60_000,
    b'{"o": [], "cmps": {}}',
]


def test_a_flood_of_starts_is_limited(discovery: tuple[FakeLink, Callable[[bool], None]]) -> None:
    """Each has the whole device announced; what the broker has retained comes at once and is not limited."""
    link, _ = discovery
    own = {TOPIC: None, TOPIC.replace("/config", "/+/config"): None}
    assert link.rates == own | {"homeassistant/status": STARTS_PER_SECOND}


@pytest.mark.parametrize("payload", JUNK)
def test_messages_of_others_on_our_topic_change_nothing(
    discovery: tuple[FakeLink, Callable[[bool], None]], payload: bytes
) -> None:
    link, switch = discovery
    switch(True)
    link.handlers[TOPIC](Incoming(TOPIC, payload, retained=True))
    link.handlers["homeassistant/status"](Incoming("homeassistant/status", payload))
    assert len(link.sent) == 1


def test_with_discovery_off_only_our_own_announcement_is_removed(
    discovery: tuple[FakeLink, Callable[[bool], None]],
) -> None:
    link, switch = discovery
    switch(False)
    link.handlers["homeassistant/status"](Incoming("homeassistant/status", b"online"))
    others = b'{"o": {"name": "other"}, "cmps": {}}'
    link.handlers[TOPIC](Incoming(TOPIC, others, retained=True))
    assert link.sent == []
    link.handlers[TOPIC](Incoming(TOPIC, b'{"o": {"name": "edgemeta"}, "cmps": {}}', retained=True))
    assert [(message.topic, message.payload, message.retain) for message in link.sent] == [(TOPIC, b"", True)]


def test_without_a_homeassistant_section_nothing_is_subscribed() -> None:
    config = Config.model_validate({"device": "test", "cameras": {"front": {"source": "synthetic://"}}})
    link, view = FakeLink(), view_of(config, {"front": ("a",)}, {"front": "classification"})
    Discovery(link, config.homeassistant, view).update(False, view)
    assert (link.handlers, link.sent) == ({}, [])


def test_cameras_removed_one_after_the_other_stay_marked_as_removed() -> None:
    """The newest announcement alone removes both; a component that returns is no longer removed."""
    every = {
        "front": {"source": "synthetic://"},
        "side": {"source": "synthetic://"},
        "back": {"source": "synthetic://"},
    }
    config = Config.model_validate({"device": "test", "cameras": every})
    link, labels = FakeLink(), dict.fromkeys(every, ("a",))
    tasks: dict[str, TaskName] = dict.fromkeys(every, "classification")
    made = Discovery(link, config.homeassistant, view_of(config, labels, tasks))
    for names in (["front", "side", "back"], ["front", "side"], ["front"], ["front", "back"]):
        cameras = {name: config.cameras[name] for name in names}
        made.update(True, view_of(config.model_copy(update={"cameras": cameras}), labels, tasks))
    third, fourth = (json.loads(message.payload)["cmps"] for message in link.sent[2:])
    assert third["state_back"] == third["state_side"] == {"p": "sensor"}
    assert fourth["state_side"] == {"p": "sensor"}
    assert fourth["state_back"]["options"] == ["a"]


def test_our_own_announcement_read_back_is_not_answered(discovery: tuple[FakeLink, Callable[[bool], None]]) -> None:
    link, switch = discovery
    switch(True)
    for retained in (False, True):
        link.handlers[TOPIC](Incoming(TOPIC, link.sent[0].payload, retained))
    assert len(link.sent) == 1
    assert json.loads(link.sent[0].payload)["dev"]["ids"] == ["edgemeta-test"]


def large_view(cameras: tuple[str, ...], zones: int = 4, labels: int = 10) -> DeviceView:
    named = tuple(f"label{number}" for number in range(labels))
    camera = CameraView(named, 60, "detection", {f"zone{number}": named for number in range(zones)})
    return DeviceView(Topics("edgemeta", "test"), dict.fromkeys(cameras, camera), 10)


def test_a_large_announcement_comes_in_parts_that_home_assistant_joins() -> None:
    """And in one message again when it is small enough. No entity is missing, doubled or left over at any time."""
    link, home, heard = FakeLink(), Assistant(), 0
    made = Discovery(link, HomeAssistantConfig(enabled=True), large_view(("a",)))
    seen = []
    for view in (
        large_view(("a",)),
        large_view(("a", "b", "c", "d")),
        large_view(("a", "c", "d")),
        large_view(("a", "c"), labels=30),
        large_view(("a", "c"), labels=2),
    ):
        made.update(True, view)
        for message in link.sent[heard:]:
            home.hear(message.topic, message.payload)
            assert len(message.payload) <= LARGEST_MARKED
        heard = len(link.sent)
        assert {key for _, key in home.entities} == announcement(view)["cmps"].keys()
        seen.append({topic.removeprefix("homeassistant/device/edgemeta-test") for topic, _ in home.entities})
    one, four = {"/config"}, {"/config", *(f"/{name}/config" for name in "abcd")}
    several = {f"/{name}{number}/config" for name in "ac" for number in ("", "-2")}
    assert (seen[0], seen[1], seen[2], seen[4]) == (one, four, four - {"/b/config"}, one)
    assert several < seen[3]


def test_parts_of_an_earlier_run_are_removed() -> None:
    """Home Assistant and the broker know parts of cameras that are gone, and a message that was whole then."""
    link, home = FakeLink(), Assistant()
    earlier, view = large_view(("a", "b", "c")), large_view(("a",))
    made = Discovery(link, HomeAssistantConfig(enabled=True), view)
    made.update(True, view)
    for discovery_id, part in parts(earlier).items():
        topic = f"homeassistant/device/{discovery_id}/config"
        home.hear(topic, encoded(part))
        handler = link.handlers[TOPIC if topic == TOPIC else TOPIC.replace("/config", "/+/config")]
        handler(Incoming(topic, encoded(part), retained=True))
    for message in link.sent[1:]:
        home.hear(message.topic, message.payload)
    assert {key for _, key in home.entities} == announcement(view)["cmps"].keys()


def test_names_of_parts_are_no_cameras_names() -> None:
    view = large_view(("a", "a-2", "a-3"), labels=40)
    found = parts(view)
    keys = [key for part in found.values() for key, each in part["cmps"].items() if len(each) > 1]
    assert sorted(keys) == sorted(announcement(view)["cmps"])
    assert {"edgemeta-test/a", "edgemeta-test/a-4", "edgemeta-test/a-2-2"} < found.keys()
