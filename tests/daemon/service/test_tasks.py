"""Models of the other tasks in `edgemeta run`: what frame messages have, with a real broker."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import jsonschema
import numpy as np
import pytest

from edgemeta.model import reference
from edgemeta.model.file import save
from edgemeta.model.graph import Model
from edgemeta.model.preprocess import preprocess
from edgemeta.model.tasks import Keypoints, ObjectPoints, Raw, Segmentation
from edgemeta.tasks.results import RawReader
from rig.square_detector import SIDE, square_detector, squares_picture
from tests.daemon.conftest import broker_keys, colour_model
from tests.daemon.service.test_plan import lines_of
from tests.tasks.models import colour_map_model

Serve = Callable[..., dict[str, Any]]


@pytest.fixture
def frame_of(
    broker: Any, subscriber: Any, write_config: Any, tmp_path: Path, run_daemon: Any, repository: Path
) -> Serve:
    """The last of three frame messages of a model about one picture; all messages meet their schemas."""

    def serve(model: Model, picture: np.ndarray, **keys: Any) -> dict[str, Any]:
        save(model, tmp_path / "m.safetensors")
        (tmp_path / "scenes").mkdir()
        for number in range(3):
            cv2.imwrite(str(tmp_path / "scenes" / f"{number}.png"), picture)
        cameras = {"yard": {"source": str(tmp_path / "scenes"), "fps": 0}}
        config = write_config(model="m.safetensors", cameras=cameras, mqtt=broker_keys(broker), **keys)
        daemon = run_daemon(config)
        frame: dict[str, Any] = [message.json for message in subscriber.wait("yard/frame", 3)][-1]
        assert daemon.stop() == 0
        subscriber.wait("availability", 2)
        for kind in ("frame", "state", "stats", "info"):
            schema = json.loads((repository / "docs" / "schema" / f"{kind}.schema.json").read_text())
            for message in subscriber.on(f"/{kind}"):
                jsonschema.validate(message.json, schema, format_checker=jsonschema.FormatChecker())
        return frame

    return serve


def test_raw_outputs_are_numbers_with_names(frame_of: Serve, subscriber: Any) -> None:
    model = replace(colour_model(), task=Raw(("tint",)))
    picture = np.random.default_rng(0).integers(0, 256, (40, 40, 3), np.uint8)
    frame = frame_of(model, picture, homeassistant={"enabled": True})
    integers = reference.run(model, preprocess(picture, model.input, model.preprocessing)[None])
    (expected,) = RawReader(model).numbers([each[0] for each in integers])
    assert frame["outputs"] == {"tint": {"shape": [1, 1, 3], "values": list(expected.values)}}
    assert (frame["labels"], frame["objects"], frame["embedding"], frame["counts"]) == ([], None, None, None)
    announced = subscriber.wait("/config")[0].json["cmps"]
    assert sum(key.startswith("number_yard.tint.") for key in announced) == 3


def test_a_segmentation_is_shares_counts_and_a_map(frame_of: Serve, subscriber: Any) -> None:
    picture = np.zeros((40, 80, 3), np.uint8)
    picture[:, :20], picture[20:, 60:] = (0, 0, 255), (255, 0, 0)
    picture[:20, 20:] = (0, 255, 0)
    task = Segmentation(("red", "green", "blue"), least_share=0.3)
    model = colour_map_model(task, crop="letterbox")
    keys: dict[str, Any] = {"state": {"min_frames": 2, "window_frames": 3}, "label_map": {"blue": "red"}}
    frame = frame_of(model, picture, homeassistant={"enabled": True}, **keys)
    assert frame["labels"] == [{"label": "red", "score": 0.625}, {"label": "green", "score": 0.375}]
    assert frame["segments"] == {
        "labels": ["red", "green"],
        "rows": 4,
        "columns": 8,
        "box_relative": [0.0, 0.0, 1.0, 1.0],
        "runs": [0, 2, 1, 6, 0, 2, 1, 6, 0, 16],
    }
    assert (frame["counts"], frame["objects"]) == ({"red": 1, "green": 1}, None)
    assert subscriber.on("yard/state")[-1].json["counts"] == {"red": 1, "green": 1}
    assert {event.json["kind"] for event in subscriber.on("yard/event")} == {"appeared"}
    announced = subscriber.wait("/config")[0].json["cmps"]
    assert {"labels_yard", "present_yard.red", "present_yard.green"} <= set(announced)


def test_keypoints_are_points_of_the_picture(frame_of: Serve, subscriber: Any) -> None:
    model = replace(colour_model(), task=Keypoints(("nose",), "xys", "fraction"))
    picture = np.full((40, 40, 3), (30, 6, 10), np.uint8)  # sixteen times 10, 6 and 30 of 255
    frame = frame_of(model, picture, homeassistant={"enabled": True})
    x, y = 16 * 10 / 255, 16 * 6 / 255
    (nose,) = frame["keypoints"]
    assert nose == {
        "name": "nose",
        "point": [round(40 * x, 1), round(40 * y, 1)],
        "point_relative": [round(x, 5), round(y, 5)],
        "score": 1.0,
    }
    assert (frame["labels"], frame["objects"], frame["outputs"]) == ([], None, None)
    assert "confidence_yard" not in subscriber.wait("/config")[0].json["cmps"]


def test_objects_have_points(frame_of: Serve) -> None:
    frame = frame_of(square_detector(extras=ObjectPoints(("tip",), "xys", 0.0)), squares_picture({(1, 2): "red"}, SIDE))
    (found,) = frame["objects"]
    assert found["keypoints"] == [
        {"name": "tip", "point": [16.0, 36.0], "point_relative": [0.125, 0.375], "score": 0.880797}
    ]
    assert found["outline_relative"] is None


def test_tiles_of_raw_outputs_are_a_mistake(write_config: Any, tmp_path: Path) -> None:
    save(replace(colour_model(), task=Raw(("tint",))), tmp_path / "m.safetensors")
    camera = {"source": "synthetic://", "tiles": {"rows": 2}}
    (line,) = lines_of(write_config(model="m.safetensors", cameras={"yard": camera}))
    assert "cameras.yard.tiles: found several tiles for colour, whose task is raw, expected 1 row" in line
