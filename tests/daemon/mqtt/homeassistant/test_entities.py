"""What is announced holds against Home Assistant's rules, whatever the cameras are called."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from edgemeta.daemon.config.config import RESERVED, Config
from edgemeta.daemon.mqtt.homeassistant.entities import announcement, view_of
from tests.daemon.mqtt.homeassistant.assistant import Assistant, render

names = st.from_regex(r"[A-Za-z0-9_-]{1,64}", fullmatch=True).filter(lambda name: name not in RESERVED)


def config_of(cameras: dict[str, Any], **keys: Any) -> Config:
    return Config.model_validate({"device": "gate", "cameras": cameras, **keys})


def announced(config: Config) -> dict[str, Any]:
    return announcement(view_of(config, dict.fromkeys(config.cameras, ("cat", "dog"))))


@given(st.lists(names, min_size=1, max_size=5, unique=True), names)
def test_every_announcement_is_accepted_and_all_its_ids_differ(cameras: list[str], device: str) -> None:
    config = config_of({name: {"source": "synthetic://"} for name in cameras}, device=device)
    assistant = Assistant()
    assistant.hear(f"homeassistant/device/edgemeta-{device}/config", json.dumps(announced(config)).encode())
    assert len(assistant.entities) == 5 + 6 * len(cameras)


def test_ids_of_two_devices_differ_where_names_run_together() -> None:
    assistant = Assistant()
    for device, camera in (("a", "b_c"), ("a_b", "c"), ("a-b", "c")):
        content = announced(config_of({camera: {"source": "synthetic://"}}, device=device))
        assistant.hear(f"homeassistant/device/edgemeta-{device}/config", json.dumps(content).encode())
    assert len(assistant.entities) == 33


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
        "version",
    }


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


def test_every_entity_has_a_row_in_the_documentation_with_the_topic_its_value_comes_from(repository: Path) -> None:
    text = (repository / "docs" / "home-assistant.md").read_text("utf-8")
    rows = set(re.findall(r"^\| `(\w+)` \| (camera|device) \| .+ \| `(\w+)` \|$", text, re.MULTILINE))
    components = announced(config_of({"front": {"source": "synthetic://"}}))["cmps"]
    wanted = set()
    for key, component in components.items():
        kind, _, camera = key.partition("_")
        wanted.add((kind, "camera" if camera else "device", component["state_topic"].rpartition("/")[2]))
    assert rows == wanted


def test_the_examples_of_the_documentation_are_yaml_and_json(repository: Path) -> None:
    text = (repository / "docs" / "home-assistant.md").read_text("utf-8")
    blocks = re.findall(r"^```(yaml|json)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 4
    for language, block in blocks:
        assert (json.loads if language == "json" else yaml.safe_load)(block)
