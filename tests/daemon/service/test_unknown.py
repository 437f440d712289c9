"""Frames that a model's rule of rejection rejects, through the whole service: messages, Home Assistant, metrics."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import cv2
import jsonschema
import numpy as np
import pytest

from edgemeta.model.file import save
from edgemeta.model.self_test import with_self_test
from edgemeta.model.tasks import Rejection
from tests.daemon.conftest import DEADLINE, broker_keys, colour_model, wait_until_metric
from tests.daemon.mqtt.homeassistant.conftest import Listening

GREY, RED = (90, 90, 90), (0, 0, 255)
"""Logits of at most 90 * 16 and of 255 * 16; the rule's threshold lies between."""


@pytest.fixture
def keys(tmp_path: Path) -> dict[str, Any]:
    """A wall that is always unknown, and a door that is red and unknown in turn; a state is that of the last frame."""
    plain = colour_model()
    path = tmp_path / "rule.safetensors"
    save(with_self_test(replace(plain, task=replace(plain.task, rejection=Rejection(3000)))), path)
    for name, colours in (("wall", [GREY]), ("door", [RED, GREY])):
        (tmp_path / name).mkdir()
        for number, colour in enumerate(colours):
            cv2.imwrite(str(tmp_path / name / f"{number}.png"), np.full((48, 64, 3), colour, np.uint8))
    return {
        "model": str(path),
        "cameras": {name: {"source": str(tmp_path / name), "fps": 10, "loop": True} for name in ("wall", "door")},
        "state": {"min_frames": 1, "window_frames": 1},
    }


def test_a_rejected_frame_is_unknown_everywhere(
    broker: Any, subscriber: Any, write_config: Any, keys: Any, run_daemon: Any, free_port: Any, repository: Path
) -> None:
    home, port = Listening(subscriber), free_port()
    page = {"enabled": True, "port": port}
    shown = {"homeassistant": {"enabled": True}, "web": page, "mqtt": broker_keys(broker)}
    daemon = run_daemon(write_config(**keys, **shown))

    # Home Assistant shows its own state unknown, which is no option that it would warn of
    assert home.entity("state_door").value == "red"
    home.wait(lambda assistant: assistant.of("state_door").value is None, "the door to become unknown")
    assert home.entity("state_door").value == "red"
    home.wait(lambda assistant: assistant.of("state_wall").is_available, "the wall")
    wait_until_metric(port, "edgemeta_frames_unknown_total", 5)
    home.wait(lambda assistant: any(topic.endswith("stats") for topic in assistant.heard), "statistics")
    for entity in ("state_wall", "confidence_wall"):
        assert (home.assistant.of(entity).value, home.assistant.of(entity).ignored) == (None, [])

    # the page has the same, and the metrics count per camera
    with urlopen(f"http://127.0.0.1:{port}/api/state", timeout=DEADLINE) as answer:
        wall = json.load(answer)["cameras"]["wall"]
    assert (wall["frame"]["unknown"], wall["frame"]["labels"], wall["frame"]["state"]) == (True, [], None)
    assert {(point["label"], point["score"], point["state"]) for point in wall["points"]} == {(None, 0.0, None)}
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=DEADLINE) as answer:
        metrics = dict(line.rsplit(" ", 1) for line in answer.read().decode().splitlines() if line[0] != "#")
    unknown, processed = (f'edgemeta_frames_{kind}_total{{camera="%s"}}' for kind in ("unknown", "processed"))
    assert float(metrics[unknown % "wall"]) > 0
    assert 0 < float(metrics[unknown % "door"]) < float(metrics[processed % "door"])

    assert daemon.stop() == 0
    subscriber.wait("availability", 2)
    frames = [message.json for message in subscriber.on("wall/frame")]
    assert {(each["unknown"], len(each["labels"]), each["state"]) for each in frames} == {(True, 0, None)}
    (first, *_) = states = [message.json for message in subscriber.on("wall/state")]
    assert {(each["unknown"], each["state"], each["score"]) for each in states} == {(True, None, None)}
    assert first["previous"] is None
    frames = [message.json for message in subscriber.on("door/frame")]
    seen = {(each["unknown"], tuple(label["label"] for label in each["labels"]), each["state"]) for each in frames}
    assert {(unknown, bool(labels), state) for unknown, labels, state in seen} == {
        (False, True, "red"),
        (True, False, None),
    }
    events = [message.json for message in subscriber.on("door/event")]
    assert {(each["kind"], each["previous"], each["state"], each["unknown"]) for each in events[1:]} == {
        ("state", "red", None, True),
        ("state", None, "red", False),
    }
    last = subscriber.on("stats")[-1].json["cameras"]["wall"]
    assert last["unknown"] == last["processed"] > 0
    assert (last["state"], last["score"]) == (None, None)
    for kind in ("frame", "state", "event", "stats"):
        schema = json.loads((repository / "docs" / "schema" / f"{kind}.schema.json").read_text())
        for message in subscriber.on(f"/{kind}"):
            jsonschema.validate(message.json, schema, format_checker=jsonschema.FormatChecker())
