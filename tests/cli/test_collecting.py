"""`edgemeta collect`: with the service and without it, and whatever ends it early."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import yaml

from rig.gate_camera import HEIGHT, STATES, WIDTH, GateCamera
from rig.service_manager import ManagedService
from rig.waiting import free_port, wait_until

EDGEMETA = str(Path(sys.executable).with_name("edgemeta"))
TOKEN = "0123456789abcdef-test"
CLOSED, OPEN = STATES


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[GateCamera]:
    camera = GateCamera(tmp_path / "gate.png")
    camera.start()
    yield camera
    camera.stop()


@pytest.fixture
def write(tmp_path: Path, gate: GateCamera) -> Callable[..., Path]:
    """Writes a config of one camera that looks at the gate."""

    def config(**keys: Any) -> Path:
        values: dict[str, Any] = {
            "device": "test",
            "cameras": {"front": gate.keys},
            "mqtt": {"host": "127.0.0.1", "port": free_port()},
            "data_folder": str(tmp_path / "state"),
            "collect": {"max_fps": 30},
        }
        path = tmp_path / "config.yaml"
        path.write_text(yaml.safe_dump(values | keys))
        return path

    return config


def collect(config: Path, *arguments: str, code: int = 0) -> "subprocess.CompletedProcess[str]":
    command = [EDGEMETA, "collect", str(config), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done


@pytest.fixture
def refused(edgemeta: Callable[..., Any]) -> Callable[..., str]:
    """What the command says that ends before it looks at a camera."""

    def run(config: Path, *arguments: str, code: int = 1) -> str:
        done = edgemeta("collect", config, *arguments)
        assert done.returncode == code, done.stdout + done.stderr
        said: str = done.stderr
        return said

    return run


def pictures(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.jpg"))


def assert_whole(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_file() and path.name[0] != ".":
            assert cv2.imread(str(path)) is not None, path


def test_frames_are_kept_under_the_label_in_the_configs_folder(write: Callable[..., Path], tmp_path: Path) -> None:
    done = collect(write(), "--label", OPEN, "--seconds", "1.5", "--json")
    reported = json.loads(done.stdout)
    folder = tmp_path / "state" / "collected-test" / "front"
    kept = pictures(folder / OPEN)
    assert reported == {
        "camera": "front",
        "label": OPEN,
        "pictures": len(kept),
        "skipped": 0,
        "folder": str(folder),
        "ended": None,
    }
    assert len(kept) >= 3
    assert done.stderr == ""
    assert cv2.imread(str(kept[0])).shape == (HEIGHT, WIDTH, 3)


@pytest.mark.gate("4 s: three runs of the command")
def test_pictures_are_what_the_network_sees_of_the_frame(
    write: Callable[..., Path], gate: GateCamera, tmp_path: Path
) -> None:
    """Cut to the camera's region, so that `edgemeta teach` needs none for them."""
    region = {"left": 0.25, "top": 0.25, "width": 0.5, "height": 0.5}
    config = write(cameras={"front": gate.keys | {"region": region}})
    collect(config, "--label", OPEN, "--seconds", "1", "--out", str(tmp_path / "out"))
    (first, *_) = pictures(tmp_path / "out" / OPEN)
    assert cv2.imread(str(first)).shape == (HEIGHT // 2, WIDTH // 2, 3)
    refused = collect(write(), "--label", OPEN, "--seconds", "1", "--out", str(tmp_path / "out"), code=1)
    assert "are of another region of the frame (0.25, 0.25, 0.5, 0.5; now 0, 0, 1, 1)" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--label", "../x"), "found label '../x', expected 1 to 60 printable characters"),
        (("--label", "x" * 200), "expected 1 to 60 printable characters"),
        (("--label", ""), "found label '', expected"),
        (("--label", "open", "--camera", "side"), "found camera 'side', expected one of front"),
        (("--label", "OPEN"), "found label 'OPEN', which differs from 'open' only in case: use 'open'"),
    ],
)
def test_a_mistake_is_one_sentence(
    write: Callable[..., Path], refused: Any, tmp_path: Path, arguments: tuple[str, ...], sentence: str
) -> None:
    (tmp_path / "state" / "collected-test" / "front" / "open").mkdir(parents=True)
    said = refused(write(), *arguments, "--seconds", "1")
    assert sentence in said
    assert said.count("\n") == 1


def test_of_several_cameras_one_must_be_named(write: Callable[..., Path], refused: Any, gate: GateCamera) -> None:
    config = write(cameras={"back": gate.keys, "front": gate.keys})
    assert refused(config, "--label", "open") == "edgemeta: found no --camera, expected one of back, front\n"


def test_a_wrong_config(write: Callable[..., Path], refused: Any) -> None:
    assert "collect.max_fsp" in refused(write(collect={"max_fsp": 1}), "--label", "open", code=78)


def test_a_camera_that_cannot_be_opened(write: Callable[..., Path], tmp_path: Path) -> None:
    done = collect(write(cameras={"front": {"source": str(tmp_path / "gone.png")}}), "--label", "open", code=1)
    assert "camera front: " in done.stderr
    assert "gone.png does not exist" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not pictures(tmp_path / "state")


@pytest.mark.gate("2 s: a run of the command")
def test_a_device_that_another_program_may_have(write: Callable[..., Path]) -> None:
    done = collect(write(cameras={"front": {"source": "/dev/video63"}}), "--label", "open", code=1)
    assert "asks the running service where the config has `web.enabled` and `web.token_file`" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.gate("2 s: a run of the command")
def test_the_end_of_a_clip_is_no_error(write: Callable[..., Path], tmp_path: Path) -> None:
    clip = tmp_path / "clip"
    clip.mkdir()
    for number in range(3):
        cv2.imwrite(str(clip / f"{number}.png"), np.full((48, 64, 3), 60 * number, np.uint8))
    done = collect(write(cameras={"front": {"source": str(clip), "fps": 20}}), "--label", "open")
    assert "ended early: camera front: its clip has ended" in done.stderr
    assert len(pictures(tmp_path / "state")) >= 1


@pytest.mark.gate("4 s: two runs of the command")
@pytest.mark.parametrize(("limits", "reason"), [({"max_pictures": 3}, "max_pictures"), ({"max_mb": 1}, "max_mb")])
def test_at_a_limit_it_ends_and_says_so(
    write: Callable[..., Path], tmp_path: Path, limits: dict[str, int], reason: str
) -> None:
    config = write(collect={"max_fps": 30} | limits)
    done = collect(config, "--label", "open", "--seconds", "60", code=1)
    assert "ended early: " in done.stderr
    assert f"`collect.{reason}`" in done.stderr
    kept = pictures(tmp_path / "state")
    assert len(kept) == 3 or sum(path.stat().st_size for path in kept) <= 1_000_000
    assert f": {len(kept)} pictures of camera front" in done.stdout
    again = collect(config, "--label", "open", "--seconds", "60", code=1)
    assert "throw some away, or raise it" in again.stderr
    assert pictures(tmp_path / "state") == kept


@pytest.mark.gate("3 s: until the camera has failed")
def test_a_camera_that_goes_in_the_middle(write: Callable[..., Path], gate: GateCamera, tmp_path: Path) -> None:
    config = write(cameras={"front": gate.keys | {"frame_timeout": 1}})

    def remove() -> None:
        wait_until(lambda: len(pictures(tmp_path / "state")) >= 2, "pictures")
        gate.stop()
        gate.path.unlink()

    remover = threading.Thread(target=remove)
    remover.start()
    done = collect(config, "--label", "open", "--seconds", "60", code=1)
    remover.join()
    assert "ended early: camera front: " in done.stderr
    assert "does not exist" in done.stderr
    assert len(pictures(tmp_path / "state")) >= 2


@pytest.mark.gate("2 s: a run of the command")
def test_ctrl_c_ends_it_in_order(write: Callable[..., Path], tmp_path: Path) -> None:
    process = subprocess.Popen(
        [EDGEMETA, "collect", str(write()), "--label", "open", "--json"], stdout=subprocess.PIPE, text=True
    )
    wait_until(lambda: len(pictures(tmp_path / "state")) >= 2, "pictures")
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    reported = json.loads(output)
    assert (reported["ended"], reported["pictures"]) == ("interrupted", len(pictures(tmp_path / "state")))


@pytest.mark.gate("15 s: the command is killed ten times")
def test_a_kill_at_any_moment_leaves_no_half_picture(write: Callable[..., Path], tmp_path: Path) -> None:
    config, chance = write(), random.Random(5)
    seen = 0
    for _ in range(10):
        process = subprocess.Popen([EDGEMETA, "collect", str(config), "--label", "open"])
        wait_until(lambda seen=seen: len(pictures(tmp_path / "state")) > seen, "a picture")
        time.sleep(chance.uniform(0, 0.3))
        process.kill()
        process.wait()
        assert_whole(tmp_path / "state")
        assert len(pictures(tmp_path / "state")) > seen
        seen = len(pictures(tmp_path / "state"))


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Callable[[Path], ManagedService]]:
    started: list[ManagedService] = []

    def start(config: Path) -> ManagedService:
        started.append(ManagedService(config, tmp_path / "service.log"))
        started[-1].ready()
        return started[-1]

    yield start
    for service in started:
        service.close()


@pytest.mark.gate("8 s: a service")
def test_a_running_service_is_asked(write: Callable[..., Path], run: Any, gate: GateCamera, tmp_path: Path) -> None:
    """It has the camera, and keeps the pictures in its own folder, wherever the command would look for it."""
    port = free_port()
    config = write(web={"enabled": True, "port": port, "token": TOKEN}, data_folder=None)
    state = {"XDG_STATE_HOME": str(tmp_path / "of the service")}
    os.environ |= state
    try:
        service = run(config)
    finally:
        del os.environ["XDG_STATE_HOME"]
    done = collect(config, "--label", OPEN, "--seconds", "2", "--json")
    reported = json.loads(done.stdout)
    assert reported["folder"] == str(tmp_path / "of the service" / "edgemeta" / "collected-test" / "front")
    assert reported["pictures"] == len(pictures(Path(reported["folder"]) / OPEN)) >= 5
    assert service.process.poll() is None
    refused = collect(config, "--label", OPEN.upper(), "--seconds", "2", code=1)
    assert "only in case" in refused.stderr
    apart = collect(config, "--label", "x", "--seconds", "1", "--out", str(tmp_path / "apart"))
    assert str(tmp_path / "apart" / "x") in apart.stdout
    gate.stop()
    gate.path.unlink()
    gone = collect(config, "--label", OPEN, "--seconds", "1", code=1)
    assert "delivered no frame within 1 s to the service" in gone.stderr
    both = collect(config, "--label", OPEN, "--seconds", "1", "--out", str(tmp_path / "apart"), code=1)
    assert "the service runs and may own the camera: without --out it collects" in both.stderr


@pytest.mark.gate("4 s: a service")
def test_a_service_that_cannot_be_asked(write: Callable[..., Path], run: Any, tmp_path: Path) -> None:
    """It runs without a token; the camera's file can be opened twice, another one's failure names the service."""
    port = free_port()
    config = write(web={"enabled": True, "port": port})
    run(config)
    assert "pictures of camera front" in collect(config, "--label", OPEN, "--seconds", "1").stdout
    busy = write(web={"enabled": True, "port": port}, cameras={"front": {"source": "/dev/video63"}})
    done = collect(busy, "--label", OPEN, "--seconds", "1", code=1)
    assert "a service runs here, but cannot be asked: Collecting pictures and teaching need" in done.stderr
