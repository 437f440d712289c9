"""What is announced holds against Home Assistant's rules, whatever the cameras are called."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from edgemeta.daemon.config.config import RESERVED, Config
from edgemeta.daemon.messages.events import EventMessage, ObjectChange
from edgemeta.daemon.messages.stats import DeviceHealth
from edgemeta.daemon.mqtt.homeassistant.entities import announcement, view_of
from edgemeta.model.tasks import TaskName
from tests.daemon.mqtt.homeassistant.assistant import Assistant, render

YARD = {"polygon": [[0, 0], [1, 0], [1, 1]]}
names = st.from_regex(r"[A-Za-z0-9_-]{1,64}", fullmatch=True).filter(lambda name: name not in RESERVED)


def config_of(cameras: dict[str, Any], **keys: Any) -> Config:
    return Config.model_validate({"device": "gate", "cameras": cameras, **keys})


def announced(
    config: Config,
    task: TaskName = "classification",
    labels: tuple[str, ...] = ("cat", "dog"),
    models: tuple[str, ...] = (),
    health: tuple[str, ...] = (),
) -> dict[str, Any]:
    numbers = dict.fromkeys(config.cameras, {"age": 1} if task == "raw" else {})
    tasks = dict.fromkeys(config.cameras, task)
    every = dict.fromkeys(config.cameras, labels)
    return announcement(view_of(config, every, tasks, numbers, models, dict.fromkeys(config.cameras, "old"), health))


@given(st.lists(names, min_size=1, max_size=5, unique=True), names)
def test_every_announcement_is_accepted_and_all_its_ids_differ(cameras: list[str], device: str) -> None:
    config = config_of({name: {"source": "synthetic://"} for name in cameras}, device=device)
    assistant = Assistant()
    assistant.hear(f"homeassistant/device/edgemeta-{device}/config", json.dumps(announced(config)).encode())
    assert len(assistant.entities) == 8 + 10 * len(cameras)


def test_ids_of_two_devices_differ_where_names_run_together() -> None:
    assistant = Assistant()
    for device, camera in (("a", "b_c"), ("a_b", "c"), ("a-b", "c")):
        content = announced(config_of({camera: {"source": "synthetic://"}}, device=device))
        assistant.hear(f"homeassistant/device/edgemeta-{device}/config", json.dumps(content).encode())
    assert len(assistant.entities) == 3 * (8 + 10)


@pytest.mark.parametrize(
    ("camera", "service", "seconds"),
    [
        ({}, {}, 180),
        ({}, {"publish": {"heartbeat_interval": 5.0}}, 30),
        ({"publish": {"heartbeat_interval": 100.0}}, {"publish": {"heartbeat_interval": 5.0}}, 300),
        ({"motion": {"enabled": True, "max_interval": 600.0}}, {}, 1800),
        ({"max_fps": 0.01}, {}, 300),
        ({"fps": 0}, {}, 180),
    ],
)
def test_a_state_expires_after_three_of_its_longest_silences(
    camera: dict[str, Any], service: dict[str, Any], seconds: int
) -> None:
    """A camera may be slower than the heartbeat: by its rate, its cap, or for want of motion."""
    components = announced(config_of({"a": {"source": "synthetic://", **camera}}, **service))["cmps"]
    assert components["state_a"]["expire_after"] == seconds
    assert components["rate_a"]["expire_after"] == 30


def test_values_of_messages_that_are_sent_once_do_not_expire() -> None:
    components = announced(config_of({"a": {"source": "synthetic://"}}))["cmps"]
    kept = {key for key, each in components.items() if "expire_after" not in each and "command_topic" not in each}
    assert kept == {
        "event_a",
        "problem_a",
        "model_a",
        "swap",
        "overloaded",
        "version",
    }


@pytest.mark.parametrize(
    ("status", "problem", "is_available", "is_problem"),
    [("running", False, True, "OFF"), ("failed", False, True, "OFF"), ("failed", True, False, "ON")],
)
def test_a_camera_that_failed_for_a_moment_is_available_and_has_no_problem(
    status: str, problem: bool, is_available: bool, is_problem: str
) -> None:
    assistant = Assistant()
    content = announced(config_of({"front": {"source": "synthetic://"}}))
    assistant.hear("homeassistant/device/edgemeta-gate/config", json.dumps(content).encode())
    assistant.hear("edgemeta/gate/availability", b"online")
    reported = {"status": status, "reason": "away" if status == "failed" else None, "problem": problem}
    assistant.hear("edgemeta/gate/front/status", json.dumps(reported).encode())
    assert assistant.of("state_front").is_available is is_available
    assert assistant.of("problem_front").value == is_problem


def test_a_camera_that_publishes_motion_has_an_entity_for_it() -> None:
    assistant = Assistant()
    content = announced(config_of({"front": {"source": "synthetic://", "motion": {"publish": True}}}))
    assistant.hear("homeassistant/device/edgemeta-gate/config", json.dumps(content).encode())
    for motion, shown in ((True, "ON"), (False, "OFF")):
        assistant.hear("edgemeta/gate/front/motion", json.dumps({"motion": motion}).encode())
        assert assistant.of("motion_front").value == shown
    assert assistant.of("motion_front").config["device_class"] == "motion"


def test_what_objects_did_is_an_event_unless_it_is_late_or_of_another_kind() -> None:
    assistant = Assistant()
    content = announced(config_of({"front": {"source": "synthetic://"}}), "detection")
    assistant.hear("homeassistant/device/edgemeta-gate/config", json.dumps(content).encode())
    event = {"kind": "object", "historical": False, "change": "crossed", "object": {"id": 7}, "label": "person"}
    event |= {"zone": None, "line": "gate", "direction": "left", "score": 0.9, "lasted_s": 2.5}
    late, appeared = event | {"historical": True, "change": "end"}, event | {"kind": "appeared", "object": None}
    for each in (event, late, appeared):
        assistant.hear("edgemeta/gate/front/event", json.dumps(each).encode())
    found = assistant.of("event_front")
    assert found.config["platform"] == "event"
    assert {change.value for change in ObjectChange} == set(found.config["event_types"])
    assert found.attributes == {
        "event_type": "crossed",
        "id": 7,
        "label": "person",
        "zone": None,
        "line": "gate",
        "direction": "left",
        "score": 0.9,
        "lasted_s": 2.5,
    }


def test_where_no_object_is_followed_events_are_changes_of_states_and_counts() -> None:
    assistant = Assistant()
    content = announced(config_of({"front": {"source": "synthetic://", "tracking": {"enabled": False}}}), "detection")
    assistant.hear("homeassistant/device/edgemeta-gate/config", json.dumps(content).encode())
    assert assistant.of("event_front").config["event_types"] == ["state", "appeared", "gone"]
    event = dict.fromkeys(EventMessage.model_fields) | {"kind": "appeared", "label": "cat", "count": 1}
    for historical, seen in ((True, None), (False, "appeared")):
        payload = json.dumps({**event, "historical": historical})
        assistant.hear("edgemeta/gate/front/event", payload.encode())
        assert assistant.of("event_front").value == seen
    assert assistant.of("event_front").attributes["label"] == "cat"


BEFORE = ["unknown", "unavailable", "cat"]
"""States of the entity when a late state arrives: none yet, camera or device unavailable, a label."""


@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("late", ["dog", None])
def test_a_late_state_results_in_a_valid_option(before: str, late: str | None) -> None:
    """Home Assistant warns `Ignoring invalid option` of any value but an option and None, which means unknown."""
    component = announced(config_of({"front": {"source": "synthetic://"}}))["cmps"]["state_front"]
    payload = json.dumps({"state": late, "historical": True})
    assert render(component["value_template"], payload, before) == ("cat" if before == "cat" else "None")


@pytest.mark.parametrize("before", BEFORE)
def test_a_live_state_replaces_any_previous_one(before: str) -> None:
    component = announced(config_of({"front": {"source": "synthetic://"}}))["cmps"]["state_front"]
    for state, shown in (("dog", "dog"), (None, "None")):
        payload = json.dumps({"state": state, "historical": False})
        assert render(component["value_template"], payload, before) == shown


def state_of(counts: Any, zones: Any = None, historical: bool = False) -> str:
    return json.dumps({"counts": counts, "zones": zones, "historical": historical})


def test_counts_of_objects_by_label_and_zone() -> None:
    zones = {"yard": YARD, "gate": YARD | {"labels": ["cat"]}}
    config = config_of({"front": {"source": "synthetic://", "zones": zones}})
    found = announced(config, "detection")["cmps"]
    assert {key for key in found if "front" in key and found[key]["state_topic"].endswith("front/state")} == {
        *("objects_front", "count_front.cat", "count_front.dog", "occupancy_front.yard", "occupancy_front.gate"),
        *("count_front.yard.cat", "count_front.yard.dog", "count_front.gate.cat"),
    }

    def shown(key: str, payload: str, before: str = "unknown") -> str:
        return render(found[key]["value_template"], payload, before)

    now = state_of({"cat": 2, "bird": 1}, {"yard": {"cat": 1}, "gate": {}})
    assert [shown(key, now) for key in ("objects_front", "count_front.cat", "count_front.dog")] == ["3", "2", "0"]
    assert [shown(f"occupancy_front.{zone}", now) for zone in zones] == ["ON", "OFF"]
    assert [shown(f"count_front.yard.{label}", now) for label in ("cat", "dog")] == ["1", "0"]
    late = state_of({"cat": 9}, {"yard": {}}, historical=True)
    assert [shown("count_front.cat", late, before) for before in ("2", "unknown", "unavailable")] == [
        "2",
        "None",
        "None",
    ]
    assert [shown("occupancy_front.yard", late, before) for before in ("on", "off", "unknown")] == ["ON", "OFF", "None"]
    for key in ("objects_front", "count_front.cat", "occupancy_front.yard"):
        assert shown(key, state_of(None)) == "None"
    stats = json.dumps({"cameras": {"front": {"counts": {"cat": 2, "a 'b\\'": 1}}}})
    assert json.loads(render(found["objects_front"]["json_attributes_template"], stats)) == {"cat": 2, "a 'b\\'": 1}
    for nothing in ({"front": {"counts": None}}, {}):
        payload = json.dumps({"cameras": nothing})
        assert render(found["objects_front"]["json_attributes_template"], payload) == "{}"
    present = announced(config, "multi-label")["cmps"]
    assert render(present["present_front.cat"]["value_template"], now) == "ON"
    assert render(present["present_front.dog"]["value_template"], now) == "OFF"
    assert render(present["labels_front"]["value_template"], state_of({"cat": 1, "bird": 1})) == "2"
    assert not any(key.startswith(("state_", "confidence_")) for key in announced(config, "embedding")["cmps"])


def test_raw_numbers_have_entities_of_the_frame_message() -> None:
    config = config_of({"front": {"source": "synthetic://"}})
    name = 'a "b"'
    view = view_of(config, {"front": ()}, {"front": "raw"}, {"front": {name: 2}})
    found = {key: each for key, each in announcement(view)["cmps"].items() if key.startswith("number_")}
    assert [each["name"] for each in found.values()] == [f"front {name} 0", f"front {name} 1"]
    assert {each["state_topic"].rpartition("/")[2] for each in found.values()} == {"frame"}
    frame = {"historical": False, "outputs": {name: {"shape": [1, 1, 2], "values": [0.5, -3.25]}}}
    templates = [each["value_template"] for each in found.values()]
    assert [render(each, json.dumps(frame)) for each in templates] == ["0.5", "-3.25"]
    for other in ({**frame, "outputs": None}, {**frame, "outputs": {}}):
        assert [render(each, json.dumps(other)) for each in templates] == ["None", "None"]
    assert render(templates[0], json.dumps({**frame, "historical": True}), "7") == "7"


@settings(deadline=None, max_examples=15)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), min_size=1, max_size=8, unique=True))
def test_any_label_has_an_entity_with_its_count(labels: list[str]) -> None:
    """Labels with quotes, braces and characters that no key has."""
    config = config_of({"front": {"source": "synthetic://", "zones": {"yard": YARD}}})
    counts = {label: number for number, label in enumerate(labels, start=1)}
    for task, kinds in (("detection", ("count_front.", "count_front.yard.")), ("multi-label", ("present_front.",))):
        assistant = Assistant()
        content = announced(config, task, tuple(labels))  # type: ignore[arg-type]
        assistant.hear("homeassistant/device/edgemeta-gate/config", json.dumps(content).encode())
        for kind in kinds:
            entities = [each for key, each in content["cmps"].items() if re.fullmatch(rf"{re.escape(kind)}[^.]+", key)]
            shown = [render(each["value_template"], state_of(counts, {"yard": counts}), "unknown") for each in entities]
            assert shown == (["ON"] * len(labels) if kind.startswith("present") else [str(n) for n in counts.values()])


ALL_HEALTH = tuple(DeviceHealth.model_fields)


def test_names_for_people_have_any_letters_and_topics_and_keys_stay() -> None:
    zones = {"yard": {**YARD, "name": "Hof"}, "gate": YARD}
    config = config_of(
        {"front": {"source": "synthetic://", "name": '玄関 "1"', "zones": zones}}, device_name="Büro: Kasten"
    )
    plain = announced(
        config_of({"front": {"source": "synthetic://", "zones": {"yard": YARD, "gate": YARD}}}), "detection"
    )
    named = announced(config, "detection")
    assert named["dev"]["name"] == "Büro: Kasten"
    assert named["cmps"].keys() == plain["cmps"].keys()
    found = {key: each["name"] for key, each in named["cmps"].items()}
    assert found["count_front.yard.cat"] == '玄関 "1" Hof cat'
    assert found["occupancy_front.gate"] == '玄関 "1" gate'
    assert found["enabled_front"] == '玄関 "1" enabled'
    for key, each in plain["cmps"].items():
        assert {k: v for k, v in each.items() if k != "name"} == {
            k: v for k, v in named["cmps"][key].items() if k != "name"
        }


@pytest.mark.parametrize(
    ("keys", "url"),
    [
        ({}, None),
        ({"web": {"enabled": True}}, None),
        ({"web": {"enabled": True, "host": "0.0.0.0", "token": "0123456789abcdef"}}, None),
        ({"web": {"enabled": True, "host": "192.0.2.7", "token": "0123456789abcdef"}}, "http://192.0.2.7:8480"),
        ({"web": {"enabled": True, "host": "2001:db8::7", "token": "0123456789abcdef"}}, "http://[2001:db8::7]:8480"),
        ({"homeassistant": {"configuration_url": "https://box.example/live"}}, "https://box.example/live"),
    ],
)
def test_the_page_is_named_only_where_its_address_is_known(keys: dict[str, Any], url: str | None) -> None:
    assert announced(config_of({"front": {"source": "synthetic://"}}, **keys))["dev"].get("configuration_url") == url


def test_controls_send_the_commands_and_show_what_the_service_says() -> None:
    cameras = {"front": {"source": "synthetic://"}, "own": {"source": "synthetic://", "model": "other"}}
    content = announced(config_of(cameras), "detection", models=("new", "old"))
    assistant = Assistant()
    assistant.hear("homeassistant/device/edgemeta-gate/config", json.dumps(content).encode())

    def sent(key: str, value: Any = None) -> tuple[str, Any]:
        topic, payload = assistant.of(key).command(value)
        return topic.removeprefix("edgemeta/gate/cmd/"), json.loads(payload)

    assert sent("enabled_front", False) == ("set", {"camera": "front", "enabled": False})
    assert sent("limit_front", 2.5) == ("set", {"camera": "front", "max_fps": 2.5})
    assert sent("threshold_own", 0.25) == ("set", {"camera": "own", "score": 0.25})
    assert sent("choice", "new") == ("model", {"model": "new"})
    assert sent("choice_own", "new") == ("model", {"camera": "own", "model": "new"})
    assert sent("update") == ("model", {"model": "old", "update": True})
    assert (sent("reload"), sent("restart")) == (("reload", {}), ("restart", {}))
    assert "choice_front" not in content["cmps"]
    digests = {"model_sha256": "a" * 64, "available_sha256": "b" * 64}
    said = {"enabled": False, "max_fps": 0.0, "score": None, "model": "new", **digests}
    assistant.hear("edgemeta/gate/front/settings", json.dumps(said).encode())
    shown = {key: assistant.of(key).value for key in ("enabled_front", "limit_front", "threshold_front", "choice")}
    assert shown == {"enabled_front": "OFF", "limit_front": "0.0", "threshold_front": None, "choice": "new"}
    assert assistant.of("update").value == "on"
    versions = {"installed_version": "a" * 12, "latest_version": "b" * 12, "title": "new"}
    idle = {"in_progress": False, "update_percentage": None}
    assert assistant.of("update").attributes == {**versions, **idle, "release_summary": ""}
    update = {"summary": 'Three "things"', "url": "https://example.org/a", "in_progress": True, "percentage": 40}
    assistant.hear("edgemeta/gate/front/settings", json.dumps(said | {"update": update | {"failed": None}}).encode())
    assert assistant.of("update").attributes == {
        **(versions | {"in_progress": True, "update_percentage": 40}),
        "release_summary": 'Three "things"',
        "release_url": "https://example.org/a",
    }
    update["failed"] = "the server refuses it"
    assistant.hear("edgemeta/gate/front/settings", json.dumps(said | {"update": update}).encode())
    assert assistant.of("update").attributes["release_summary"] == "the server refuses it"


def test_without_commands_there_are_no_controls() -> None:
    config = config_of({"front": {"source": "synthetic://"}}, mqtt={"commands": False})
    assert not [key for key, each in announced(config, models=("a",))["cmps"].items() if "command_topic" in each]


def test_every_entity_has_a_row_in_the_documentation_with_the_topic_its_value_comes_from(repository: Path) -> None:
    text = (repository / "docs" / "home-assistant.md").read_text("utf-8")
    row = r"^\| `(\w+)` \| (camera|device|label|number|zone|zone and label) \| .+ \| `(\w+)` \|$"
    rows = set(re.findall(row, text, re.MULTILINE))
    cameras = {"front": {"source": "synthetic://", "zones": {"yard": YARD}, "motion": {"publish": True}}}
    cameras["front"]["snapshots"] = {"interval": 1, "events": True}
    tasks: tuple[TaskName, ...] = (
        "classification",
        "detection",
        "multi-label",
        "embedding",
        "segmentation",
        "keypoints",
        "raw",
    )
    wanted = set()
    for task in tasks:
        for key, component in announced(config_of(cameras), task, models=("a",), health=ALL_HEALTH)["cmps"].items():
            kind, _, place = key.partition("_")
            names = {"cat": "label", "dog": "label", "age": "number", "0": "number"}
            levels = tuple(names.get(each, each) for each in place.split("."))
            per = {
                ("",): "device",
                ("front",): "camera",
                ("front", "label"): "label",
                ("front", "number", "number"): "number",
                ("front", "yard"): "zone",
                ("front", "yard", "label"): "zone and label",
            }
            places = ("state_topic", "image_topic", "command_topic")
            topic = next(component[place] for place in places if place in component)
            wanted.add((kind, per[levels], topic.rpartition("/")[2]))
    assert rows == wanted


def test_the_examples_of_the_documentation_are_yaml_and_json(repository: Path) -> None:
    text = (repository / "docs" / "home-assistant.md").read_text("utf-8")
    blocks = re.findall(r"^```(yaml|json)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2
    for language, block in blocks:
        assert (json.loads if language == "json" else yaml.safe_load)(block)
