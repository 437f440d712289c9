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


def test_every_key_that_is_a_path_is_resolved_once_and_no_other_key(tmp_path: Path) -> None:
    """Names of files that do not exist: a model stays a name, every path lies in the folder."""
    login = {"username_file": "name", "password_file": "word"}
    given = config(
        cameras={"a": {"source": "clip.avi", "tls": {"ca_file": "camera.pem"}}, "b": {"source": "rtsp://h/s", **login}},
        mqtt={**login, "tls": {"enabled": True, "ca_file": "ca", "cert_file": "cert", "key_file": "key"}},
        web={"token_file": "token"},
        collect={"folder": "pictures"},
        data_folder="data",
        trust={"public_key_files": ["maker.pub"]},
        swap={"model_folder": "models"},
    )
    found = resolved(given, tmp_path)
    changed = {
        "a.source": found.cameras["a"].source.written,
        "a.tls": found.cameras["a"].tls.ca_file,
        "b": (found.cameras["b"].username_file, found.cameras["b"].password_file),
        "mqtt": (found.mqtt.username_file, found.mqtt.password_file),
        "tls": (found.mqtt.tls.ca_file, found.mqtt.tls.cert_file, found.mqtt.tls.key_file),
        "others": (found.web.token_file, found.collect.folder, found.data_folder, found.swap.model_folder),
        "keys": found.trust.public_key_files,
    }
    assert changed == {
        "a.source": f"{tmp_path}/clip.avi",
        "a.tls": f"{tmp_path}/camera.pem",
        "b": (f"{tmp_path}/name", f"{tmp_path}/word"),
        "mqtt": (f"{tmp_path}/name", f"{tmp_path}/word"),
        "tls": (f"{tmp_path}/ca", f"{tmp_path}/cert", f"{tmp_path}/key"),
        "others": (f"{tmp_path}/token", f"{tmp_path}/pictures", f"{tmp_path}/data", f"{tmp_path}/models"),
        "keys": [f"{tmp_path}/maker.pub"],
    }
    assert found.cameras["b"].source.written == "rtsp://h/s"
    plain = config(mqtt={"host": "localhost", "base_topic": "base"})
    assert resolved(plain, tmp_path) == plain


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
