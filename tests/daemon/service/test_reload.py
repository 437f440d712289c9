"""Which keys a reload finds changed, and which of them it may apply."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemeta.daemon.config.config import Config
from edgemeta.daemon.config.reloading import reloaded
from edgemeta.daemon.service.reload import changed_keys

FRONT = {"source": "synthetic://"}
FPS = "cameras.front.fps"


def config(**keys: Any) -> Config:
    return Config.model_validate({"device": "d", "cameras": {"front": FRONT}, **keys})


@pytest.mark.parametrize(
    ("keys", "changed"),
    [
        ({}, []),
        ({"top_k": 1}, ["top_k"]),
        ({"model": "m", "device": "e"}, ["device", "model"]),
        ({"state": {"min_frames": 4, "window_frames": 5}}, ["state.min_frames"]),
        (
            {"mqtt": {"retry": {"initial_delay": 0.5, "max_delay": 60.0}, "username": "u"}},
            ["mqtt.username", "mqtt.retry.initial_delay"],
        ),
        (
            {"cameras": {"front": FRONT | {"fps": 3, "retry": {"max_delay": 9.0}}}},
            [FPS, "cameras.front.retry.max_delay"],
        ),
        ({"cameras": {"front": FRONT, "back": FRONT}}, ["cameras.back"]),
        ({"cameras": {"back": FRONT}}, ["cameras.front", "cameras.back"]),
        ({"backend": {"name": "cpu", "options": {"threads": 2}}}, ["backend.name", "backend.options.threads"]),
    ],
)
def test_changed_keys_are_named_one_by_one(keys: dict[str, Any], changed: list[str]) -> None:
    assert changed_keys(config(), config(**keys)) == changed
    assert sorted(changed_keys(config(**keys), config())) == sorted(changed)


def test_a_password_that_changes_is_named_but_not_shown() -> None:
    old = config(mqtt={"username": "u", "password": "geheim"})
    assert changed_keys(old, config(mqtt={"username": "u", "password": "neu"})) == ["mqtt.password"]


@given(
    top=st.integers(1, 9),
    period=st.floats(0.1, 100),
    window=st.integers(1, 20),
    level=st.sampled_from(["debug", "error"]),
)
def test_live_keys_taken_over_leave_nothing_changed(top: int, period: float, window: int, level: str) -> None:
    """What is applied is whole sections, so every rule between keys of a section still holds."""
    running = config()
    new = config(
        top_k=top,
        stats={"interval": period},
        state={"min_frames": window, "window_frames": window},
        log={"level": level},
    )
    applied = reloaded(running, new)
    assert changed_keys(applied, new) == []
    assert Config.model_validate(applied.model_dump()) == new


def test_keys_of_a_camera_are_taken_over_but_no_camera_comes_or_goes() -> None:
    running = config(cameras={"front": FRONT, "gone": FRONT})
    new = config(device="other", cameras={"front": FRONT | {"fps": 3.0}, "new": FRONT})
    assert reloaded(running, new) == config(cameras={"front": FRONT | {"fps": 3.0}, "gone": FRONT})


@pytest.mark.parametrize(
    ("keys", "anew"),
    [
        ({"fps": 3.0}, True),
        ({"retry": {"max_delay": 9.0}}, True),
        ({"state": {"min_duration": 1.0}, "publish": {"frames": "change"}}, False),
        ({"publish": {"heartbeat_interval": 5.0}, "loop": True}, True),
    ],
)
def test_what_is_reported_of_a_camera_changes_without_a_new_start(keys: dict[str, Any], anew: bool) -> None:
    running, new = config().cameras["front"], config(cameras={"front": FRONT | keys}).cameras["front"]
    assert new.requires_restart(running) is anew
    assert running.requires_restart(new) is anew


def test_one_key_of_a_section_may_be_taken_over_alone() -> None:
    new = config(homeassistant={"enabled": True, "discovery_prefix": "ha"}, state={"min_duration": 1.0})
    assert reloaded(config(), new) == config(homeassistant={"enabled": True}, state={"min_duration": 1.0})
