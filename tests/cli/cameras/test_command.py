"""`edgemeta cameras`: the streams of a camera on loopback, and a config of them that is valid."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from edgemeta.daemon.config.config import Config
from edgemeta.daemon.config.loader import ConfigFile
from rig.waiting import free_port
from tests.cli.cameras.onvif_camera import PASSWORD, USER, Camera, onvif_camera

pytest.importorskip("onvif", reason="no onvif (extra `onvif`)")


@pytest.fixture
def camera() -> Iterator[str]:
    with onvif_camera() as place:
        yield place


@pytest.fixture
def password(tmp_path: Path) -> Path:
    (tmp_path / "password").write_text(f"{PASSWORD}\n")
    return tmp_path / "password"


def test_the_streams_of_a_camera(camera: str, password: Path, edgemeta_json: Callable[..., Any]) -> None:
    login = ("--username", USER, "--password-file", password)
    (found,) = edgemeta_json("cameras", "--host", camera, *login)["cameras"]
    assert [(each["name"], each["width"], each["rate"]) for each in found["streams"]] == [
        ("main", 1920, 25),
        ("sub", 640, 10),
        ("mobile", 320, 5),
    ]
    assert found["streams"][1]["address"] == "rtsp://127.0.0.1:554/sub"
    assert found["streams"][1]["snapshot"] == f"http://{camera}/snapshot.jpg"


def test_what_is_printed_is_a_config(camera: str, password: Path, edgemeta: Callable[..., Any], tmp_path: Path) -> None:
    done = edgemeta("cameras", "--host", camera, "--username", USER, "--password-file", password)
    assert done.returncode == 0, done.stderr
    assert "  sub                640x360  H264    10/s  rtsp://127.0.0.1:554/sub" in done.stdout.splitlines()
    (tmp_path / "config.yaml").write_text(done.stdout[done.stdout.index("\ncameras:") :])
    config, problems = ConfigFile(tmp_path / "config.yaml", Config).validate()
    assert config is not None
    assert not problems
    (found,) = config.cameras.values()
    assert found.address.target().text == f"rtsp://{USER}:ge%20heim@127.0.0.1:554/sub"
    assert PASSWORD not in done.stdout


def test_a_wrong_login_is_one_sentence(
    camera: str, edgemeta: Callable[..., Any], one_sentence: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAMERA", "wrong")
    done = edgemeta("cameras", "--host", camera, "--username", USER, "--password-env", "CAMERA")
    one_sentence(done, f"camera {camera} refused the login, expected another user name or password of its ONVIF users")
    done = edgemeta("cameras", "--host", camera)
    one_sentence(done, f"camera {camera} refused the login, expected a user name and a password of its ONVIF users")


def test_no_camera_is_one_sentence(edgemeta: Callable[..., Any], one_sentence: Callable[..., None]) -> None:
    done = edgemeta("cameras", "--host", f"127.0.0.1:{free_port()}")
    one_sentence(done, "does not answer as ONVIF has it: Cannot connect to host 127.0.0.1")
    one_sentence(edgemeta("cameras", "--host", "http://cam"), "'http://cam' is no camera's address, expected HOST")


def test_a_camera_that_leaves_out_its_time_is_one_sentence(
    edgemeta: Callable[..., Any], one_sentence: Callable[..., None]
) -> None:
    with onvif_camera(type("Camera", (Camera,), {"knows_time": False})) as place:
        done = edgemeta("cameras", "--host", place)
    one_sentence(done, f"camera {place} leaves out of its answer what ONVIF demands")
