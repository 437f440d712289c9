"""Objects of known frames: boxes, names, filters, zones, tiles."""

from dataclasses import replace

import numpy as np
import pytest

from edgemeta.daemon.config.objects import ObjectsConfig, ZoneConfig
from edgemeta.daemon.inference.readers.by_task import reader_of
from edgemeta.daemon.inference.readers.reading import Picture, Reading
from edgemeta.daemon.inference.readers.settings import CameraSettings, Rule
from edgemeta.model import reference
from edgemeta.model.graph import Model
from edgemeta.model.layers import Conv
from edgemeta.model.preprocess import Rectangle, placement
from edgemeta.model.tasks import Detection, ObjectMasks, ObjectPoints
from edgemeta.plugins.preprocess import make_preprocessor
from rig.square_detector import SIDE, square_detector, squares_picture

MODEL = square_detector()
RIGHT_HALF = ZoneConfig(polygon=[[0.5, 0.0], [1.0, 0.0], [1.0, 1.0], [0.5, 1.0]])


def frame_of(squares: dict[tuple[int, int], str]) -> np.ndarray:
    """A frame of 96 x 128 pixels with coloured cells of 16 x 16 (column, row)."""
    return squares_picture(squares, SIDE)


def wide_boxes(label_overlap: float | None) -> Model:
    """The detector with boxes of twice the width of a cell."""
    layers = []
    for layer in MODEL.layers:
        wide = isinstance(layer, Conv) and layer.name == "boxes"
        layers.append(replace(layer, bias=np.array([128, 128, 177, 0], np.int32)) if wide else layer)
    assert isinstance(MODEL.task, Detection)
    return replace(MODEL, layers=tuple(layers), task=replace(MODEL.task, label_overlap=label_overlap))


def read(frame: np.ndarray, tiles: list[Rectangle] | None = None, model: Model = MODEL, **settings: object) -> Reading:
    parts = tiles or [Rectangle(0, 0, *frame.shape[:2])]
    batch = make_preprocessor(model, frame.shape, parts)(frame)
    where = tuple(placement(model.preprocessing, model.input, (part.height, part.width, 3)) for part in parts)
    picture = Picture(frame.shape[0], frame.shape[1], tuple(parts), where)
    reader = reader_of(model, CameraSettings(3, Rule(1, 1), **settings))  # type: ignore[arg-type]
    return reader(reference.run(model, batch), picture)


def test_objects_have_boxes_in_pixels_and_fractions() -> None:
    reading = read(frame_of({(1, 2): "red", (7, 5): "blue"}))
    assert reading.objects is not None
    found = {each["label"]: each for each in reading.objects}
    assert found["red"]["box"] == (16.0, 32.0, 32.0, 48.0)
    assert found["red"]["box_relative"] == (0.125, 0.33333, 0.25, 0.5)
    assert found["blue"]["box"] == (112.0, 80.0, 128.0, 96.0)
    assert all(each["score"] > 0.99 for each in reading.objects)
    assert not reading.labels
    assert reading.best == {"label": reading.objects[0]["label"], "score": reading.objects[0]["score"]}


def test_boxes_of_a_larger_frame_are_mapped_back_through_the_letterbox() -> None:
    boxed = replace(MODEL, preprocessing=replace(MODEL.preprocessing, crop="letterbox"))
    frame = np.zeros((128, 256, 3), np.uint8)  # becomes 64 of 96 rows, with 16 above and below
    frame[32:64, 64:96] = (0, 255, 0)
    reading = read(frame, model=boxed)
    assert reading.objects is not None
    assert [each["box"] for each in reading.objects] == [(64.0, 32.0, 96.0, 64.0)]
    assert reading.objects[0]["box_relative"] == (0.25, 0.25, 0.375, 0.5)


def test_points_and_outlines_are_those_of_their_object() -> None:
    points = ObjectPoints(("left", "right"), "xys", 0.0)
    frame = np.zeros((128, 256, 3), np.uint8)  # twice the input in both directions
    frame[32:64, 64:96], frame[96:, 224:] = (0, 0, 255), (255, 0, 0)
    boxed = replace(square_detector(extras=points).preprocessing, crop="letterbox")
    (warm, _) = read(frame, model=replace(square_detector(extras=points), preprocessing=boxed)).objects or ()
    score = round(1 / (1 + float(np.exp(-2))), 6)
    assert warm["keypoints"] == [
        {"name": "left", "point": (64.0, 40.0), "point_relative": (0.25, 0.3125), "score": score},
        {"name": "right", "point": (95.9, 40.0), "point_relative": (0.37451, 0.3125), "score": score},
    ]
    assert warm["outline_relative"] is None
    masks = replace(square_detector(extras=ObjectMasks("prototypes")), preprocessing=boxed)
    found = {each["label"]: each for each in read(frame, model=masks).objects or ()}
    assert found["blue"]["outline_relative"] == []
    corners = np.array(found["red"]["outline_relative"])
    assert np.ptp(corners, axis=0) == pytest.approx([0.125, 0.25], abs=1e-3)  # other cells count -8, it nearly 8
    assert found["red"]["keypoints"] is None


def test_nothing_is_found_in_black_white_and_gray() -> None:
    for level in (0, 127, 255):
        reading = read(np.full((96, 128, 3), level, np.uint8))
        assert reading.objects == []
        assert reading.best is None


def test_labels_are_renamed_and_filtered_by_their_names_in_messages() -> None:
    frame = frame_of({(0, 0): "red", (2, 0): "green", (4, 0): "blue"})
    settings = {"labels": {"red": "warm", "green": "warm"}, "objects": ObjectsConfig(labels=["warm"])}
    assert [each["label"] for each in read(frame, **settings).objects or ()] == ["warm", "warm"]


def test_scores_of_labels_replace_the_model_s_threshold() -> None:
    frame = frame_of({(0, 0): "red", (2, 0): "green"})
    frame[:16, :16] = (0, 0, 148)  # logit 16 * 148 / 256 - 8 = 1.25: a score of 0.78
    every = read(frame).objects
    assert every is not None
    assert [each["label"] for each in every] == ["green", "red"]
    assert 0.75 < every[1]["score"] < 0.8
    strict = read(frame, objects=ObjectsConfig(scores={"red": 0.9})).objects
    assert [each["label"] for each in strict or ()] == ["green"]


def test_boxes_of_different_labels_are_one_object_as_the_config_says_or_else_the_model() -> None:
    """Neighbouring cells of the detector, whose boxes are made twice as large, overlap by a third."""
    frame = frame_of({(0, 0): "red", (1, 0): "green"})

    def found(overlap: float | None, of_model: float | None) -> list[str]:
        objects = read(frame, model=wide_boxes(of_model), objects=ObjectsConfig(label_overlap=overlap)).objects
        return sorted(each["label"] for each in objects or ())

    both = ["green", "red"]
    assert found(None, None) == found(0.5, None) == found(1, 0.2) == found(0.5, 0.2) == both
    assert len(found(0.2, None)) == len(found(None, 0.2)) == len(found(0.2, 0.5)) == 1


def test_small_and_large_boxes_are_left_out() -> None:
    frame = frame_of({(0, 0): "red"})  # 1/48 of the picture
    assert read(frame, objects=ObjectsConfig(min_area=0.02, max_area=0.021)).objects
    assert read(frame, objects=ObjectsConfig(min_area=0.021)).objects == []
    assert read(frame, objects=ObjectsConfig(max_area=0.02)).objects == []


def test_zones_are_those_in_which_the_lower_edge_s_middle_lies() -> None:
    frame = frame_of({(1, 2): "red", (6, 5): "blue", (6, 1): "red"})
    zones = {"right": RIGHT_HALF, "blue only": RIGHT_HALF.model_copy(update={"labels": ["blue"]})}
    found = read(frame, zones=zones).objects
    assert {each["box"][:2]: each["zones"] for each in found or ()} == {
        (16.0, 32.0): [],
        (96.0, 80.0): ["right", "blue only"],
        (96.0, 16.0): ["right"],
    }


def test_objects_of_tiles_are_merged_in_the_picture() -> None:
    frame = np.zeros((96, 192, 3), np.uint8)
    frame[32:48, 80:96] = (255, 0, 0)  # in both tiles
    frame[0:16, 176:192] = (0, 0, 255)
    tiles = [Rectangle(0, 0, 96, 128), Rectangle(0, 64, 96, 128)]
    found = read(frame, tiles).objects
    assert sorted((each["label"], each["box"]) for each in found or ()) == [
        ("blue", (80.0, 32.0, 96.0, 48.0)),
        ("red", (176.0, 0.0, 192.0, 16.0)),
    ]
