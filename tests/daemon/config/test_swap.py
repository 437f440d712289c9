"""Config of models and swaps: the model of a camera, relative paths, bounds."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from edgemeta.daemon.config.config import Config, resolved


def config(**keys: Any) -> Config:
    return Config.model_validate({"device": "d", "cameras": {"front": {"source": "synthetic://"}}, **keys})


def test_a_camera_has_its_own_model_or_the_services() -> None:
    cameras = {"front": {"source": "0"}, "back": {"source": "0", "model": "own"}}
    found = config(model="common", cameras=cameras)
    assert [found.model_of(name) for name in found.cameras] == ["common", "own"]


def test_paths_are_resolved_against_the_configs_folder(tmp_path: Path) -> None:
    (tmp_path / "own.safetensors").touch()
    found = resolved(
        config(
            cameras={
                "a": {"source": "0", "model": "own.safetensors"},
                "b": {"source": "0", "model": "resnet8-cifar10"},
                "c": {"source": "0"},
            },
            swap={"model_folder": "models"},
            trust={"public_key_files": ["maker.pub", "/etc/edgemeta/other.pub"]},
        ),
        tmp_path,
    )
    assert [camera.model for camera in found.cameras.values()] == [
        str(tmp_path / "own.safetensors"),
        "resnet8-cifar10",
        None,
    ]
    assert found.swap.model_folder == str(tmp_path / "models")
    assert found.trust.public_key_files == [str(tmp_path / "maker.pub"), "/etc/edgemeta/other.pub"]


@pytest.mark.parametrize(
    "section",
    [
        {"shadow_frames": -1},
        {"shadow_frames": 1.0},
        {"min_agreement": 1.5},
        {"min_agreement": float("nan")},
        {"max_slowdown": 0},
        {"max_slowdown": float("inf")},
        {"trial_frames": 0},
        {"timeout": 0},
        {"model_folder": ""},
        {"warm_up": 3},
    ],
)
def test_invalid_swap_sections(section: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        config(swap=section)


@pytest.mark.parametrize("keys", ["maker.pub", [""], [1], None])
def test_invalid_lists_of_keys(keys: Any) -> None:
    with pytest.raises(ValidationError):
        config(trust={"public_key_files": keys})
