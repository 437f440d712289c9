"""Detected objects get names of a classification that looks at them, in frame messages and in events."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest

from edgemeta.daemon.capture.latest_frames import CapturedFrame
from edgemeta.daemon.capture.source import Frame
from edgemeta.daemon.config.loader import ConfigError
from edgemeta.daemon.inference.loaded_model import LoadedModel
from edgemeta.daemon.inference.object_names import MOST_NAMED, ObjectNames
from edgemeta.daemon.inference.pipeline import Identity, Pipeline
from edgemeta.daemon.inference.readers.settings import CameraSettings, Rule
from edgemeta.daemon.messages.events import ObjectChange
from edgemeta.daemon.runtime.clock import Clock
from edgemeta.daemon.service.plan import prepare
from edgemeta.model.file import load, save
from edgemeta.model.graph import Model
from edgemeta.model.tasks import Classification, Rejection
from edgemeta.model.zoo import find
from edgemeta.plugins.reference.backend import BACKEND
from edgemeta.plugins.registry import choose
from edgemeta.toolchain.data.boxes.opened import open_boxed_pictures
from edgemeta.toolchain.teach.teach import Settings, teach
from rig.square_detector import save_square_detector, square_detector, squares_picture
from tests.daemon.conftest import colour_model

NO_DROPS = {"superseded": 0, "failed": 0, "outbox": 0, "refused": 0, "stopped": 0}


def loaded(model: Model) -> LoadedModel:
    return LoadedModel(replace(model, digest="0" * 64), "reference", BACKEND.compile(model, {}))


@pytest.fixture
def named() -> ObjectNames:
    """Names red squares by their colour; blue ones are strangers."""
    model = colour_model()
    task = Classification(("my car", "the lawn", "the sky"), rejection=Rejection(16 * 200))
    return ObjectNames({"red": loaded(replace(model, task=task))})


def test_objects_of_the_label_are_named_in_frames_and_events(named: ObjectNames) -> None:
    settings = CameraSettings(3, Rule(2, 3))
    pipeline = Pipeline(Identity("dev", "0" * 32), "front", loaded(square_detector()), settings, Clock(), names=named)
    results = []
    for number in range(3):
        pixels = squares_picture({(1, 1): "red", (5, 3): "green"})
        results.append(
            pipeline.classify(CapturedFrame("front", number + 1, Frame(pixels, 10**9 + number), 0), NO_DROPS, 0)
        )
    objects = {each.label: each.name for each in results[-1].frame.objects or ()}
    assert objects == {"red": "my car", "green": None}
    begun = [
        event.object for result in results for event in result.updates.events if event.change is ObjectChange.BEGIN
    ]
    assert {each.label: each.name for each in begun if each is not None} == {"red": "my car", "green": None}


def test_the_rule_of_rejection_leaves_strangers_without_a_name(named: ObjectNames) -> None:
    pixels = np.full((40, 60, 3), 90, np.uint8)
    pixels[:, :20] = (0, 0, 255)
    objects = [{"label": "red", "name": None, "box": box} for box in ((0, 0, 20, 40), (30, 0, 60, 40))]
    named.name(objects, pixels)
    assert [each["name"] for each in objects] == ["my car", None]


def test_only_the_best_objects_are_named_also_in_grey_pictures(named: ObjectNames) -> None:
    white = np.full((40, 60), 255, np.uint8)
    objects = [{"label": "red", "name": None, "box": (0, 0, 20, 40)} for _ in range(MOST_NAMED + 2)]
    named.name(objects, white)
    assert [each["name"] is not None for each in objects] == [True] * MOST_NAMED + [False] * 2


def test_a_config_that_names_unusable_models_is_refused(write_config: Callable[..., Path], tmp_path: Path) -> None:
    save(colour_model(), tmp_path / "cars.safetensors")
    squares = str(save_square_detector(tmp_path / "squares.safetensors"))
    for names, found in (
        ({"violet": "cars.safetensors"}, "the label 'violet', which no detection has"),
        ({"red": "squares.safetensors"}, "its task is detection"),
        ({"red": "nothing.safetensors"}, "no such model file"),
    ):
        with pytest.raises(ConfigError, match=found):
            prepare(write_config(model=squares, object_names=names))
    plan = prepare(write_config(model=squares, object_names={"red": "cars.safetensors"}))
    assert plan.names["red"].model.name == "colour"
    again = prepare(write_config(model=squares, object_names={"blue": "cars.safetensors"}), running=plan)
    assert again.names is plan.names
    with pytest.raises(ConfigError, match="no such model file"):
        prepare(write_config(model=squares, object_names={"blue": "nothing.safetensors"}), running=plan)


def test_photographs_of_animals_get_the_names_that_were_taught(shared_data: Path, tmp_path: Path) -> None:
    pictures = open_boxed_pictures(shared_data / "detection" / "validation.npz")
    animals = ("cat", "horse")
    crops: dict[str, list[tuple[np.ndarray, tuple[float, ...]]]] = {label: [] for label in animals}
    for each in pictures.pictures:
        for box, place in zip(each.boxes, each.classes, strict=True):
            label = pictures.labels[place]
            if label in animals and min(box[2] - box[0], box[3] - box[1]) > 60:
                crops[label].append((each.read()[..., ::-1], tuple(box.tolist())))
    for label, some in crops.items():
        (tmp_path / "pets" / label).mkdir(parents=True)
        for number, (pixels, (x0, y0, x1, y1)) in enumerate(some[::2][:20]):
            part = np.ascontiguousarray(pixels[int(y0) : int(y1), int(x0) : int(x1)])
            cv2.imwrite(str(tmp_path / "pets" / label / f"{number}.png"), part)
    taught = teach(tmp_path / "pets", load(find("backbone64")), Settings("pets"), print, lambda *_: None)
    names = ObjectNames({"animal": LoadedModel(taught.model, "cpu", choose("cpu").compile(taught.model, {}))})
    right = []
    for label, some in crops.items():
        for pixels, box in some[1::2][:15]:
            objects = [{"label": "animal", "name": None, "box": box}]
            names.name(objects, np.ascontiguousarray(pixels))
            right += [objects[0]["name"] == label] if objects[0]["name"] else []
    assert len(right) >= 15
    assert np.mean(right) >= 0.7
