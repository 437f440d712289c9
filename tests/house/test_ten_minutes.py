"""The commands and configs of docs/ten-minutes.md do what the page says, with a drawn gate as the camera."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from rig.gate_camera import RATE, STATES, GateCamera
from rig.waiting import wait_until

CAMERA = "/dev/video0"
SUBSCRIBES = "mosquitto_sub"


@pytest.fixture
def page(repository: Path) -> str:
    return (repository / "docs" / "ten-minutes.md").read_text("utf-8")


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page, re.MULTILINE | re.DOTALL)


def commands(page: str) -> list[str]:
    return [line for block in blocks(page, "sh") for line in block.splitlines()]


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[GateCamera]:
    camera = GateCamera(tmp_path / "gate.png")
    camera.start()
    yield camera
    camera.stop()


def show(gate: GateCamera, state: str) -> None:
    gate.state = state
    first = gate.number
    wait_until(lambda: gate.number > first + 1, "the state")


@pytest.mark.gate("60 s: frames are collected twice for ten seconds, and a network is taught")
def test_its_commands_run_and_the_network_knows_the_states(page: str, gate: GateCamera, tmp_path: Path) -> None:
    """As they are written, except for the camera."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl (Debian package openssl)")
    config = blocks(page, "yaml")[0]
    assert CAMERA in config
    drawn = config.replace(f"source: {CAMERA}", f"source: {gate.path}\n    fps: {RATE}\n    loop: true")
    (tmp_path / "gate.yaml").write_text(drawn)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    said: dict[str, str] = {}
    for command in commands(page):
        if command.startswith(SUBSCRIBES):  # it needs the running service: test_panel_in_browser.py receives the state
            continue
        for state in STATES:
            if f'--label "{state}"' in command:
                show(gate, state)
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=tmp_path,
            env=os.environ | {"PATH": path, "XDG_STATE_HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        said[command.split()[1]] = done.stdout
    assert (tmp_path / "web-token").stat().st_mode & 0o077 == 0
    predicted = [line for line in said["predict"].splitlines() if "gate open" in line or "gate closed" in line]
    assert len(predicted) >= 15
    firsts = subprocess.run(
        ["edgemeta", "predict", "gate.safetensors", "pictures", "--top", "1", "--json"],
        cwd=tmp_path,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    ).stdout
    rows = [json.loads(line) for line in firsts.splitlines()]
    right = [Path(row["image"]).parent.name == row["labels"][0]["label"] for row in rows]
    assert len(right) >= 30
    assert sum(right) >= 0.97 * len(right)


def test_its_configs_are_valid(page: str) -> None:
    """The second one is the first with the line that the panel shows."""
    first, second = (yaml.safe_load(block) for block in blocks(page, "yaml"))
    assert first["web"] == {"enabled": True, "token_file": "web-token"}
    model = second["cameras"]["front"].pop("model")
    assert second["cameras"] == first["cameras"]
    assert re.fullmatch(r"/var/lib/edgemeta/taught-yard/front-\d\.safetensors@sha256:…", model)


def test_it_is_the_first_page_after_the_readme_and_tells_of_real_buttons(repository: Path, page: str) -> None:
    readme = (repository / "README.md").read_text("utf-8")
    links = re.findall(r"\]\((docs/[^)#]+\.md)", readme)
    assert links[0] == "docs/ten-minutes.md"
    panel = (repository / "daemon" / "web" / "page" / "index.html").read_text("utf-8")
    for name in ("Teach your own labels", "Teach", "Use it"):
        assert f">{name}<" in panel
        assert f"*{name}*" in page
