"""A detection in `edgemeta run`: objects in frames, counts as state, events, zones, with a real broker."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import jsonschema
import pytest

from rig.square_detector import SIDE, save_square_detector, squares_picture
from tests.daemon.conftest import broker_keys
from tests.daemon.service.test_plan import lines_of

RED, BLUE = (1, 2), (6, 5)
SCENES: list[dict[tuple[int, int], str]] = [{}, {RED: "red"}, {RED: "red", BLUE: "blue"}, {BLUE: "blue"}]
FRAMES_EACH = 3


@pytest.fixture
def squares(tmp_path: Path) -> Path:
    """A folder with the scenes, and the model beside it."""
    save_square_detector(tmp_path / "squares.safetensors")
    folder = tmp_path / "scenes"
    folder.mkdir()
    for number in range(len(SCENES) * FRAMES_EACH):
        cv2.imwrite(str(folder / f"{number:02}.png"), squares_picture(SCENES[number // FRAMES_EACH], SIDE))
    return folder


@pytest.fixture
def run_yard(broker: Any, write_config: Any, squares: Path, run_daemon: Any) -> Callable[..., Any]:
    """Runs the service on the scenes at a rate, with a zone on the right and some more keys."""
    right = {"polygon": [[0.5, 0.0], [1.0, 0.0], [1.0, 1.0], [0.5, 1.0]]}

    def run(fps: float, **keys: Any) -> Any:
        return run_daemon(
            write_config(
                model="squares.safetensors",
                backend={"name": "auto"},
                cameras={"yard": {"source": str(squares), "fps": fps, "zones": {"right": right}}},
                mqtt=broker_keys(broker),
                state={"min_frames": 2, "window_frames": 3},
                **keys,
            )
        )

    return run


def test_objects_are_counted_and_reported(subscriber: Any, run_yard: Callable[..., Any], repository: Path) -> None:
    daemon = run_yard(0, label_map={"blue": "cold"}, tracking={"enabled": False})
    frames = [message.json for message in subscriber.wait("yard/frame", len(SCENES) * FRAMES_EACH)]
    assert daemon.stop() == 0
    subscriber.wait("availability", 2)
    assert [sorted(each["label"] for each in frame["objects"]) for frame in frames[::FRAMES_EACH]] == [
        [],
        ["red"],
        ["cold", "red"],
        ["cold"],
    ]
    assert frames[3]["objects"][0]["box"] == [16.0, 32.0, 32.0, 48.0]
    assert {tuple(frame["labels"]) for frame in frames} == {()}
    assert {frame["state"] for frame in frames} == {None}
    assert frames[-1]["counts"] == {"cold": 1}
    assert frames[-1]["zones"] == {"right": {"cold": 1}}
    states = [message.json for message in subscriber.on("yard/state")]
    assert [(state["counts"], state["zones"]["right"]) for state in states] == [
        ({}, {}),
        ({"red": 1}, {}),
        ({"red": 1, "cold": 1}, {"cold": 1}),
        ({"cold": 1}, {"cold": 1}),
    ]
    events = [message.json for message in subscriber.on("yard/event")]
    assert [(event["kind"], event["label"], event["zone"], event["count"]) for event in events] == [
        ("appeared", "red", None, 1),
        ("appeared", "cold", None, 1),
        ("appeared", "cold", "right", 1),
        ("gone", "red", None, 0),
    ]
    assert events[-1]["lasted_s"] > 0
    last = subscriber.on("stats")[-1].json["cameras"]["yard"]
    assert (last["counts"], last["state"]) == ({"cold": 1}, None)
    assert last["score"] > 0.99
    info = subscriber.on("info")[-1].json
    assert (info["task"], info["tasks"]) == ("detection", {"yard": "detection"})
    assert info["labels"] == ["red", "green", "cold"]
    for kind in ("frame", "state", "event", "stats", "info"):
        schema = json.loads((repository / "docs" / "schema" / f"{kind}.schema.json").read_text())
        for message in subscriber.on(f"/{kind}"):
            jsonschema.validate(message.json, schema, format_checker=jsonschema.FormatChecker())


def test_objects_are_followed(subscriber: Any, run_yard: Callable[..., Any], squares: Path, repository: Path) -> None:
    """As fast as possible, so that no frame is superseded; the last scene is longer than the gap all the same."""
    for number in range(len(SCENES) * FRAMES_EACH, 60):
        cv2.imwrite(str(squares / f"{number}.png"), squares_picture(SCENES[-1], SIDE))
    daemon = run_yard(0, tracking={"max_gap": 0.001}, publish={"frames": "change"})
    subscriber.wait("yard/event", 4)
    assert daemon.stop() == 0
    subscriber.wait("availability", 2)
    events = [message.json for message in subscriber.on("yard/event")]
    assert [(event["kind"], event["change"], event["object"]["id"], event["zone"]) for event in events] == [
        ("object", "begin", 1, None),
        ("object", "begin", 2, None),
        ("object", "entered", 2, "right"),
        ("object", "end", 1, None),
        ("object", "left", 2, "right"),
        ("object", "end", 2, None),
    ]
    assert [event["label"] for event in events] == ["red", "blue", "blue", "red", "blue", "blue"]
    assert events[-1]["object"]["best"]["box"] == [96.0, 80.0, 112.0, 96.0]
    frames = [message.json for message in subscriber.on("yard/frame")]
    assert {each["id"] for frame in frames for each in frame["objects"]} <= {None, 1, 2}
    assert {event["sequence"] for event in events[:4]} <= {frame["sequence"] for frame in frames}
    assert [message.json["counts"] for message in subscriber.on("yard/state")] == [
        {},
        {"red": 1},
        {"red": 1, "blue": 1},
        {"blue": 1},
    ]
    for kind in ("frame", "state", "event"):
        schema = json.loads((repository / "docs" / "schema" / f"{kind}.schema.json").read_text())
        for message in subscriber.on(f"/{kind}"):
            jsonschema.validate(message.json, schema, format_checker=jsonschema.FormatChecker())


def test_labels_and_zones_that_do_not_fit_the_model_are_mistakes(write_config: Any, squares: Path) -> None:
    triangle = [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]
    camera = {
        "source": str(squares),
        "model": "squares.safetensors",
        "objects": {"scores": {"read": 0.5}},
        "zones": {
            "a": {"polygon": triangle, "labels": ["purple"]},
            "flat": {"polygon": [[0.0, 0.0], [0.5, 0.5], [1.0, 1.0]]},
        },
        "lines": {"point": {"points": [[0.5, 0.5], [0.5, 0.5]]}},
    }
    found = lines_of(write_config(cameras={"yard": camera}))
    assert [line.partition(" ")[2] for line in found] == [
        "cameras.yard.lines.point.points: found a list, expected two different points",
        "cameras.yard.zones.flat.polygon: found a list, expected at least 3 points that enclose an area",
    ]
    del camera["zones"]["flat"]  # type: ignore[attr-defined]
    del camera["lines"]
    other = {"source": str(squares), "zones": {"a": {"polygon": triangle}}}
    camera["lines"] = {"b": {"points": [[0.5, 0.0], [0.5, 1.0]], "labels": ["rd"]}}
    other["lines"] = {"b": {"points": [[0.5, 0.0], [0.5, 1.0]]}}
    found = lines_of(write_config(cameras={"yard": camera, "gate": other}, objects={"labels": ["red", "cat"]}))
    assert sorted(line.partition(" ")[2] for line in found) == [
        "cameras.gate.lines: found lines for colour, whose task is classification, expected a model that finds objects",
        "cameras.gate.zones: found zones for colour, whose task is classification, expected a model that finds objects",
        "cameras.yard.lines.b.labels: found the label 'rd', which squares does not have, expected `red`",
        "cameras.yard.objects.scores.read: found the label 'read', which squares does not have, expected `red`",
        "cameras.yard.zones.a.labels: found the label 'purple', which squares does not have, "
        "expected one of red, green, blue",
        "objects.labels: found the label 'cat', which no model has, expected one of red, green, blue",
    ]
