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
from edgemeta.daemon.messages.records import ObjectChange
from edgemeta.daemon.mqtt.homeassistant.entities import announcement, view_of
from edgemeta.model.tasks import TaskName
from tests.daemon.mqtt.homeassistant.assistant import Assistant, render

YARD = {"polygon": [[0, 0], [1, 0], [1, 1]]}
names = st.from_regex(r"[A-Za-z0-9_-]{1,64}", fullmatch=True).filter(lambda name: name not in RESERVED)


def config_of(cameras: dict[str, Any], **keys: Any) -> Config:
    return Config.model_validate({"device": "gate", "cameras": cameras, **keys})


def announced(
    config: Config, task: TaskName = "classification", labels: tuple[str, ...] = ("cat", "dog")
) -> dict[str, Any]:
    numbers = dict.fromkeys(config.cameras, {"age": 1} if task == "raw" else {})
    tasks = dict.fromkeys(config.cameras, task)
    return announcement(view_of(config, dict.fromkeys(config.cameras, labels), tasks, numbers))


@given(st.lists(names, min_size=1, max_size=5, unique=True), names)
def test_every_announcement_is_accepted_and_all_its_ids_differ(cameras: list[str], device: str) -> None:
    config = config_of({name: {"source": "synthetic://"} for name in cameras}, device=device)
    assistant = Assistant()
    assistant.hear(f"homeassistant/device/edgemeta-{device}/config", json.dumps(announced(config)).encode())
    assert len(assistant.entities) == 6 + 6 * len(cameras)


def test_ids_of_two_devices_differ_where_names_run_together() -> None:
    assistant = Assistant()
    for device, camera in (("a", "b_c"), ("a_b", "c"), ("a-b", "c")):
        content = announced(config_of({camera: {"source": "synthetic://"}}, device=device))
        assistant.hear(f"homeassistant/device/edgemeta-{device}/config", json.dumps(content).encode())
    assert len(assistant.entities) == 36


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
    assert {key for key, component in components.items() if "expire_after" not in component} == {
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


def test_there_are_no_events_of_objects_where_none_is_followed() -> None:
    config = config_of({"front": {"source": "synthetic://", "tracking": {"enabled": False}}})
    assert "event_front" not in announced(config, "detection")["cmps"]
    assert "event_front" not in announced(config_of({"front": {"source": "synthetic://"}}))["cmps"]


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
    assert {key for key in found if "front" in key and found[key]["state_topic"].endswith("/state")} == {
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
        for key, component in announced(config_of(cameras), task)["cmps"].items():
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
            topic = component.get("state_topic") or component["image_topic"]
            wanted.add((kind, per[levels], topic.rpartition("/")[2]))
    assert rows == wanted


def test_the_examples_of_the_documentation_are_yaml_and_json(repository: Path) -> None:
    text = (repository / "docs" / "home-assistant.md").read_text("utf-8")
    blocks = re.findall(r"^```(yaml|json)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 6
    for language, block in blocks:
        assert (json.loads if language == "json" else yaml.safe_load)(block)
