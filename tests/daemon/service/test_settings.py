"""What the command `set` makes of a config, and what is kept of it."""

import logging
from pathlib import Path
from typing import Any

import pytest

from edgemeta.daemon.config.config import Config
from edgemeta.daemon.messages.commands import SetCommand
from edgemeta.daemon.service.settings import (
    CommandError,
    changed_settings,
    fitting,
    read_settings,
    score_of,
    with_settings,
    write_settings,
)
from rig.square_detector import square_detector
from tests.daemon.conftest import colour_model


def config_of(**keys: Any) -> Config:
    cameras = {"front": {"source": "synthetic://"}, "back": {"source": "synthetic://", "max_fps": 3}}
    return Config.model_validate({"cameras": cameras, **keys})


DETECTOR = square_detector()
MODELS = {"front": DETECTOR, "back": colour_model()}


def test_a_field_that_is_left_out_stays_and_null_is_the_config_s() -> None:
    config = config_of()
    one = changed_settings({}, config, SetCommand(enabled=False, max_fps=0.0))
    two = changed_settings(one, config, SetCommand(camera="back", enabled=None))
    cameras = with_settings(config, two, MODELS).cameras
    assert [(each.enabled, each.max_fps) for each in cameras.values()] == [(False, None), (True, None)]
    assert (
        with_settings(config, changed_settings(two, config, SetCommand(max_fps=None)), MODELS).cameras["back"]
        == (config.cameras["back"])
    )


def test_a_score_is_the_least_of_every_label_or_that_at_which_a_label_becomes_the_state() -> None:
    config = config_of(
        state={"enter_score": 0.9, "leave_score": 0.8}, objects={"min_area": 0.1, "scores": {"red": 0.7}}
    )
    assert [score_of(config, name, model) for name, model in MODELS.items()] == [None, 0.9]
    found = with_settings(config, changed_settings({}, config, SetCommand(score=0.6)), MODELS)
    assert [score_of(found, name, model) for name, model in MODELS.items()] == [0.6, 0.6]
    objects, state = found.cameras["front"].objects, found.cameras["back"].state
    assert objects is not None
    assert (objects.min_area, objects.scores) == (0.1, {"red": 0.6, "green": 0.6, "blue": 0.6})
    assert state is not None
    assert (state.enter_score, state.leave_score) == (0.6, 0.6)
    Config.model_validate(found.model_dump(mode="json"))  # what is made without validation is valid


def test_settings_that_fit_no_longer_are_named_and_left_out_for_their_camera_only() -> None:
    config = config_of()
    wanted = {"front": SetCommand(labels=["dog"]), "back": SetCommand(enabled=False), "gone": SetCommand(enabled=False)}
    kept, (misfit,) = fitting(wanted, config, MODELS)
    assert kept == {"back": wanted["back"]}
    assert misfit.shown[0] == "cameras.front.labels"
    _, (misfit,) = fitting({"back": SetCommand(labels=["red"])}, config, MODELS)
    assert misfit.found == "labels for colour, whose task is classification"


def test_what_is_kept_is_read_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = config_of(data_folder=str(tmp_path / "data"), device="gate")
    assert read_settings(config) == {}
    settings = {"front": SetCommand(enabled=False, labels=["red"])}
    write_settings(config, settings)
    assert read_settings(config) == settings
    file = tmp_path / "data" / "settings-gate.json"
    file.write_text('{"version": 1, "cameras": {"front": {"max_fps": -1}}}')
    with caplog.at_level(logging.WARNING):
        assert read_settings(config) == {}
    assert f"{file} is damaged" in caplog.text


def test_a_command_names_a_camera_and_a_setting() -> None:
    with pytest.raises(CommandError, match="expected one of enabled, max_fps, score, labels"):
        changed_settings({}, config_of(), SetCommand(camera="front"))
    with pytest.raises(CommandError, match="found camera 'side', expected one of front, back"):
        changed_settings({}, config_of(), SetCommand(camera="side", enabled=True))
