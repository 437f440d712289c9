"""The part of docs/detection.md about the service: its config, commands, messages and entities, with known squares."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import cv2
import jsonschema
import pytest
import yaml

from edgemeta.daemon.messages.records import FoundObject
from rig.square_detector import save_square_detector, squares_picture
from tests.daemon.conftest import broker_keys
from tools.json_schema import files

EDGEMETA = Path(sys.executable).with_name("edgemeta")
LABELS = ("person", "car", "truck", *(f"label {number}" for number in range(20)))
SQUARES = {(1, 4): "red", (6, 0): "green"}
"""A person in the yard, and a car in the street."""


@pytest.fixture
def page(repository: Path) -> str:
    return (repository / "docs" / "detection.md").read_text("utf-8")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the clip and the model of the page's commands."""
    clip = cv2.VideoWriter(str(tmp_path / "clip.avi"), cv2.VideoWriter.fourcc(*"MJPG"), 20, (256, 192))
    for _ in range(20):
        clip.write(squares_picture(SQUARES))
    clip.release()
    save_square_detector(tmp_path / "yolox.safetensors", LABELS)
    return tmp_path


def config_of(page: str) -> dict[str, Any]:
    (text,) = re.findall(r"`config.yaml`:\n\n```yaml\n(.*?)```", page, re.DOTALL)
    content = yaml.safe_load(text)
    assert isinstance(content, dict)
    return content


def test_its_config_gives_its_entities_and_counts(
    page: str, folder: Path, broker: Any, subscriber: Any, run_daemon: Any
) -> None:
    config = config_of(page)
    config["cameras"]["front"] |= {"source": "clip.avi", "loop": True}
    config |= {"mqtt": broker_keys(broker), "backend": {"name": "reference"}, "web": {}, "data_folder": "state"}
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    checked = subprocess.run(
        [EDGEMETA, "check", "config.yaml"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stderr
    run_daemon(folder / "config.yaml")
    state = subscriber.wait_for("front/state", lambda message: bool(message.json["counts"])).json
    assert state["counts"] == {"person": 1, "car": 1}
    assert state["zones"] == {"yard": {"person": 1}, "street": {"car": 1}}
    announced = json.loads(subscriber.wait("edgemeta-gate/config")[0].payload)["cmps"].values()
    entities = {f"{each['p']}.gate_{each['name'].replace(' ', '_')}" for each in announced}
    (paragraph,) = re.findall(r"the config above gives (.*?)\n\n", page, re.DOTALL)
    named = re.findall(r"`(sensor\.\w+|binary_sensor\.\w+|_\w+)`", paragraph)
    named = [name if "." in name else f"sensor.gate_front{name}" for name in named]
    assert len(named) == 6
    assert set(named) <= entities
    assert "binary_sensor.gate_front_street" in entities


def test_its_messages_match_the_schema(page: str) -> None:
    found, event = (json.loads(text) for text in re.findall(r"```json\n(.*?)```", page, re.DOTALL))
    FoundObject.model_validate(found)
    jsonschema.validate(event, json.loads(files()["event.schema.json"]))
    width, height = 480, 360
    for pixels, share, side in zip(found["box"], found["box_relative"], (width, height) * 2, strict=True):
        assert share == pytest.approx(pixels / side, abs=1e-4)


@pytest.mark.gate("4 s: a whole demo")
def test_its_demo_runs(page: str, folder: Path) -> None:
    pytest.importorskip("amqtt", reason="needs amqtt: pip install 'edgemeta[demo]'")
    command, *others = re.findall(r"^edgemeta (demo .*)$", page, re.MULTILINE)
    assert [shlex.split(other)[:5] for other in others] == [shlex.split(command)[:5]]
    done = subprocess.run(
        [EDGEMETA, *shlex.split(command)], cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(r"^person +\d+ objects$", done.stdout, re.MULTILINE)


@pytest.mark.slow
def test_its_calibration_runs(page: str, folder: Path, shared_data: Path) -> None:
    """With the import that the page begins with; the clip is short. Minutes: every way to quantize is tried."""
    commands = [
        *re.findall(r"^edgemeta (import yolox(?:.*\\\n)*.*)$", page, re.MULTILINE),
        *re.findall(r"^edgemeta (quantize yolox.*)$", page, re.MULTILINE),
    ]
    assert len(commands) == 2
    (folder / "yolox_nano.onnx").write_bytes((shared_data / "networks" / "yolox_nano.onnx").read_bytes())
    for command in commands:
        words = shlex.split(command.replace("\\\n", " "))
        done = subprocess.run([EDGEMETA, *words], cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    done = subprocess.run(
        [EDGEMETA, "model", "info", "yolox.safetensors"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert "detection" in done.stdout
