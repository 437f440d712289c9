"""A picture in tiles: small things are found that the model does not see in the whole picture, at their places."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgemeta.daemon.capture.latest_frames import CapturedFrame
from edgemeta.daemon.capture.source import Frame
from edgemeta.daemon.config.camera import MAX_OVERLAP, TilesConfig
from edgemeta.daemon.inference.loaded_model import LoadedModel
from edgemeta.daemon.inference.pipeline import Identity, Pipeline
from edgemeta.daemon.inference.readers.settings import CameraSettings, Rule
from edgemeta.daemon.inference.tiles import picture_of
from edgemeta.daemon.messages.records import FrameMessage
from edgemeta.daemon.runtime.clock import Clock
from edgemeta.model.errors import FrameError
from edgemeta.model.file import load
from edgemeta.model.graph import Model, Preprocessing
from edgemeta.model.layers import Conv, TensorType
from edgemeta.model.preprocess import Rectangle
from edgemeta.model.prove import prove
from edgemeta.model.tasks import Detection, DetectionLevel
from edgemeta.model.weights import FixedWeights
from edgemeta.plugins.reference.backend import BACKEND
from edgemeta.tasks import tiles as tasks_tiles

NO_DROPS = {"superseded": 0, "failed": 0, "outbox": 0, "refused": 0, "stopped": 0}
SETTINGS = CameraSettings(3, Rule(1, 1))


@pytest.fixture
def finds_light() -> Model:
    """Looks at one pixel of 8 x 8: where it is white, the 8 x 8 pixels are a "lamp". The input has 64 x 64."""

    def conv(name: str, weight: int, bias: list[int]) -> Conv:
        weights = FixedWeights(np.full((len(bias), 1, 1, 3), weight, np.int8), 8, np.ones(1))
        output = TensorType((8, 8, len(bias)), bits=32, scale=0.05)
        return Conv(name, "input", output, weights, np.array(bias, np.int32), (8, 8))

    layers = conv("boxes", 0, [10, 10, 0, 0]), conv("lamp", 0, [200]), conv("objectness", 1, [-700])
    task = Detection(("lamp",), "yolox", (DetectionLevel("boxes", "lamp", "objectness"),))
    table = np.arange(256, dtype=np.uint8)[np.newaxis]
    image, outputs = TensorType((64, 64, 3), signed=False), ("boxes", "lamp", "objectness")
    model = Model("lamps", image, layers, outputs, task, Preprocessing("full", "rgb", table), digest="0" * 64)
    prove(model)
    return model


def pipeline_of(model: Model, settings: CameraSettings) -> Pipeline:
    loaded = LoadedModel(model, "reference", BACKEND.compile(model, {}))
    return Pipeline(Identity("dev", "0" * 32), "front", loaded, settings, Clock())


def shown_by(pipeline: Pipeline, pixels: np.ndarray) -> FrameMessage:
    return pipeline.classify(CapturedFrame("front", 1, Frame(pixels, 1), 0), NO_DROPS, 0).frame


def test_a_small_object_is_found_in_its_tile_at_its_place(finds_light: Model) -> None:
    pixels = np.zeros((128, 192, 3), np.uint8)
    pixels[72:80, 136:144] = 255
    tiles = TilesConfig(columns=3, rows=2, overlap=0)
    pipeline = pipeline_of(finds_light, SETTINGS)
    assert shown_by(pipeline, pixels).objects == []
    pipeline.set_settings(replace(SETTINGS, tiles=tiles))
    (lamp,) = shown_by(pipeline, pixels).objects or []
    assert (lamp.label, lamp.box) == ("lamp", (136.0, 72.0, 144.0, 80.0))
    assert lamp.box_relative == pytest.approx((136 / 192, 72 / 128, 144 / 192, 80 / 128), abs=1e-5)
    pipeline.set_settings(SETTINGS)
    assert shown_by(pipeline, pixels).objects == []


def test_an_object_that_two_tiles_show_is_one_object(finds_light: Model) -> None:
    """Tiles of 64 x 64 pixels at 0 and 32: the lamp lies in both."""
    pixels = np.zeros((64, 96, 3), np.uint8)
    pixels[16:24, 40:48] = 255
    pipeline = pipeline_of(finds_light, replace(SETTINGS, tiles=TilesConfig(columns=2, overlap=0.5)))
    assert [lamp.box for lamp in shown_by(pipeline, pixels).objects or []] == [(40.0, 16.0, 48.0, 24.0)]


def test_the_best_tile_classifies(model_file: Path) -> None:
    """Half of the picture is green: the whole gives green a low score, the right tile a high one."""
    pixels = np.full((48, 96, 3), 90, np.uint8)
    pixels[:, 48:] = (0, 255, 0)
    model = load(model_file)
    whole = shown_by(pipeline_of(model, SETTINGS), pixels).labels[0]
    tiled = replace(SETTINGS, tiles=TilesConfig(columns=2, overlap=0))
    best = shown_by(pipeline_of(model, tiled), pixels).labels[0]
    alone = shown_by(pipeline_of(model, SETTINGS), pixels[:, 48:]).labels[0]
    assert whole.score < best.score
    assert best == alone
    assert best.label == "green"


def test_the_whole_picture_is_one_tile(finds_light: Model) -> None:
    picture = picture_of(finds_light, (128, 192, 3), TilesConfig())
    assert picture.tiles == (Rectangle(0, 0, 128, 192),)
    assert picture.placements[0].to_frame((0, 0, 64, 64)) == (0, 0, 192, 128)


def test_more_tiles_than_pixels_are_refused(finds_light: Model) -> None:
    sentence = "a frame of 2 x 50 pixels cannot be cut into 3 x 1 tiles"
    with pytest.raises(FrameError, match=sentence):
        picture_of(finds_light, (50, 2, 3), TilesConfig(columns=3))


def test_every_overlap_of_the_config_can_be_cut() -> None:
    assert MAX_OVERLAP == tasks_tiles.MAX_OVERLAP
