"""The pure step: pixels in, message out, over a real session."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pydantic_core import to_json

from edgemeta.daemon.capture.latest_frames import CapturedFrame
from edgemeta.daemon.capture.source import Frame
from edgemeta.daemon.config.camera import MAX_OVERLAP, TilesConfig
from edgemeta.daemon.inference.loaded_model import LoadedModel
from edgemeta.daemon.inference.pipeline import FrameResult, Identity, Pipeline, picture_of
from edgemeta.daemon.inference.readers.by_task import reader_of
from edgemeta.daemon.inference.readers.settings import CameraSettings, Rule
from edgemeta.daemon.messages.events import ObjectChange
from edgemeta.daemon.messages.records import Drops, FrameMessage
from edgemeta.daemon.runtime.clock import Clock
from edgemeta.model.errors import FrameError
from edgemeta.model.file import load
from edgemeta.model.graph import Model, Preprocessing
from edgemeta.model.layers import Conv, TensorType
from edgemeta.model.preprocess import Rectangle
from edgemeta.model.prove import prove
from edgemeta.model.tasks import Classification, Detection, DetectionLevel, Embedding, Rejection
from edgemeta.model.weights import FixedWeights
from edgemeta.plugins.api import BackendError
from edgemeta.plugins.reference.backend import BACKEND
from edgemeta.tasks import tiles as tasks_tiles
from rig.square_detector import square_detector, squares_picture
from tests.daemon.conftest import colour_model

NO_DROPS = {"superseded": 0, "failed": 0, "outbox": 0, "refused": 0, "stopped": 0}
BGR = {"red": (0, 0, 255), "green": (0, 255, 0), "blue": (255, 0, 0), "grey": (90, 90, 90)}

SETTINGS = CameraSettings(3, Rule(1, 1))


@pytest.fixture
def ticking() -> Callable[[], int]:
    """A clock that moves 1 ms at each look, from 1 s on."""
    moments: Iterator[int] = iter(range(10**9, 10**12, 10**6))
    return lambda: next(moments)


@pytest.fixture
def pipeline(ticking: Callable[[], int], model_file: Path) -> Pipeline:
    model = load(model_file)
    loaded = LoadedModel(model, "reference", BACKEND.compile(model, {}))
    return Pipeline(Identity("dev", "0" * 32), "front", loaded, CameraSettings(2, Rule(2, 3)), Clock(), ticking)


def captured(colour: str, sequence: int = 1, shape: tuple[int, int] = (48, 64), at: int = 990_000_000) -> CapturedFrame:
    return CapturedFrame("front", sequence, Frame(np.full((*shape, 3), BGR[colour], np.uint8), at), 0)


def steps_of(pipeline: Pipeline, colours: list[str]) -> list[FrameResult]:
    """Classify frames of these colours, captured 10 ms apart, each with the number of frames withheld before it."""
    steps: list[FrameResult] = []
    for number, colour in enumerate(colours, 1):
        withheld = sum(step.updates.withheld for step in steps)
        steps.append(pipeline.classify(captured(colour, number, at=number * 10**7), NO_DROPS, withheld))
    return steps


def test_a_frame_becomes_its_message(pipeline: Pipeline) -> None:
    dropped = {"superseded": 3, "failed": 0, "outbox": 2, "refused": 1, "stopped": 0}
    message = pipeline.classify(captured("green", 6), dropped, 4).frame
    assert [label.label for label in message.labels] == ["green", "red"]
    z = np.array([255, 0, 0]) * 16 / 255
    expected = np.exp(z) / np.exp(z).sum()
    assert [label.score for label in message.labels] == pytest.approx(expected[:2], abs=1e-6)
    assert (message.device, message.camera, message.sequence, message.backend) == ("dev", "front", 6, "reference")
    assert (message.dropped, message.withheld) == (Drops(**dropped), 4)


def test_the_fields_of_a_frame_are_its_record_to_the_byte(pipeline: Pipeline) -> None:
    """What is published is made of the fields, unchecked: their names, order and values are the record's."""
    for step in steps_of(pipeline, ["green", "grey", "red", "red", "red"]):
        assert list(step.fields) == list(FrameMessage.model_fields)
        assert to_json(step.fields) == step.frame.model_dump_json().encode()


def test_stages_are_measured_one_after_the_other(pipeline: Pipeline) -> None:
    step = pipeline.classify(captured("red"), NO_DROPS, 0)
    assert step.stages == {"delay": 0, "wait": 10**7, "preprocess": 10**6, "inference": 10**6, "postprocess": 10**6}
    assert step.frame.latency_us.model_dump() == {
        "delay": 0,
        "wait": 10_000,
        "preprocess": 1000,
        "inference": 1000,
        "postprocess": 1000,
        "total": 13_000,
    }


def test_the_total_of_a_late_frame_begins_with_its_capture(pipeline: Pipeline) -> None:
    came = captured("red")
    frame = came.frame._replace(captured_ns=came.frame.captured_ns - 5 * 10**9, delay_ns=5 * 10**9)
    late = came._replace(frame=frame)
    latency = pipeline.classify(late, NO_DROPS, 0).frame.latency_us
    assert (latency.delay, latency.wait, latency.total) == (5_000_000, 10_000, 5_013_000)


def test_state_and_event_come_with_each_change_only(pipeline: Pipeline) -> None:
    steps = steps_of(pipeline, ["red", "red", "blue", "red", "blue", "blue"])
    assert [step.frame.state for step in steps] == [None, "red", "red", "red", "blue", "blue"]
    states = [step.updates.state for step in steps if step.updates.state is not None]
    assert [(state.state, state.previous, state.sequence) for state in states] == [("red", None, 2), ("blue", "red", 5)]
    events = [event for step in steps for event in step.updates.events]
    assert [(event.state, event.previous, event.lasted_s, event.sequence) for event in events] == [
        ("red", None, None, 2),
        ("blue", "red", 0.03, 5),
    ]
    assert states[1].score == events[1].score == steps[4].frame.labels[0].score
    assert states[1].since == events[1].captured == steps[4].frame.captured
    assert not any(step.updates.withheld for step in steps)


def test_a_state_is_published_again_after_the_heartbeat_with_the_score_of_now(pipeline: Pipeline) -> None:
    pipeline.set_settings(CameraSettings(2, Rule(2, 3), heartbeat_ns=3 * 10**7))
    steps = steps_of(pipeline, ["red", "red", "red", "red", "green"])
    assert [step.updates.state is not None for step in steps] == [False, True, False, False, True]
    again = steps[4].updates.state
    assert again is not None
    assert (again.state, again.sequence, again.since) == ("red", 2, steps[1].frame.captured)
    assert steps[4].frame.labels[1].label == "red"
    assert again.score == steps[4].frame.labels[1].score
    assert steps[4].updates.events == ()


def test_only_changes_are_published_and_every_frame_withheld_is_counted(pipeline: Pipeline) -> None:
    """The first frame, changes, and one every 40 ms without any: the numbers still prove that none is missing."""
    pipeline.set_settings(CameraSettings(2, Rule(2, 3), only_changes=True, heartbeat_ns=4 * 10**7))
    colours = ["red"] * 8 + ["green"] * 4
    published = [step.frame for step in steps_of(pipeline, colours) if not step.updates.withheld]
    assert [frame.sequence for frame in published] == [1, 2, 6, 10]
    for before, frame in enumerate(published):
        assert frame.sequence - 1 - before == frame.withheld


def test_where_no_label_is_certain_the_state_is_null_and_published(pipeline: Pipeline) -> None:
    """Grey is a third each. At first, no certain label gives a state but no event; later it gives an event."""
    pipeline.set_settings(CameraSettings(2, Rule(2, 3, enter=0.5, leave=0.4)))
    steps = steps_of(pipeline, ["grey", "grey", "red", "red", "grey", "grey"])
    states = [step.updates.state for step in steps if step.updates.state is not None]
    assert [(state.state, state.sequence) for state in states] == [(None, 2), ("red", 4), (None, 6)]
    assert (states[0].score, states[2].score) == (None, None)
    events = [event for step in steps for event in step.updates.events]
    assert [(event.state, event.previous, event.lasted_s) for event in events] == [
        ("red", None, 0.02),
        (None, "red", 0.02),
    ]


def test_labels_are_renamed_and_grouped_with_their_scores_added(pipeline: Pipeline) -> None:
    plain = pipeline.classify(captured("red"), NO_DROPS, 0).frame.labels
    pipeline.set_settings(CameraSettings(3, Rule(1, 1), labels={"red": "warm", "green": "cold", "blue": "cold"}))
    step = pipeline.classify(captured("green", 2), NO_DROPS, 0)
    assert [label.label for label in step.frame.labels] == ["cold", "warm"]
    assert step.frame.labels[0].score == pytest.approx(1 - plain[1].score, abs=2e-6)
    assert step.frame.state == "cold"


def test_another_model_answers_from_the_next_frame_on_and_the_state_stays(
    pipeline: Pipeline, model_file: Path, tmp_path: Path
) -> None:
    steps_of(pipeline, ["red", "red"])
    model = load(model_file)
    other = replace(model, name="other", task=Classification(("rouge", "vert", "bleu")))
    pipeline.set_model(LoadedModel(other, "reference", BACKEND.compile(other, {})))
    first, second = (pipeline.classify(captured("red", number), NO_DROPS, 0) for number in (3, 4))
    assert (first.frame.model.name, first.frame.labels[0].label, first.frame.state) == ("other", "rouge", "red")
    (event,) = second.updates.events
    assert (event.previous, second.frame.state) == ("red", "rouge")


def test_frames_may_change_their_size(pipeline: Pipeline) -> None:
    for shape in ((48, 64), (1, 1), (360, 480), (48, 64)):
        assert pipeline.classify(captured("blue", shape=shape), NO_DROPS, 0).frame.labels[0].label == "blue"


def test_pixels_that_are_no_frame_are_refused(pipeline: Pipeline) -> None:
    frame = CapturedFrame("front", 1, Frame(np.zeros((4, 4, 2), np.uint8), 0), 0)
    with pytest.raises(FrameError):
        pipeline.classify(frame, NO_DROPS, 0)


def test_a_failing_backend_is_reported(pipeline: Pipeline) -> None:
    pipeline._loaded.close()
    with pytest.raises(BackendError, match="closed"):
        pipeline.classify(captured("red"), NO_DROPS, 0)


def test_other_settings_apply_from_the_next_frame_and_the_history_stays(pipeline: Pipeline) -> None:
    """With 1 of 1 instead of 2 of 3 every frame's label is the state at once; one label is named instead of two."""
    assert pipeline.classify(captured("red", 1), NO_DROPS, 0).frame.state is None
    pipeline.set_settings(CameraSettings(2, Rule(2, 2)))
    assert pipeline.classify(captured("red", 2), NO_DROPS, 0).frame.state == "red"
    pipeline.set_settings(CameraSettings(1, Rule(1, 1)))
    step = pipeline.classify(captured("blue", 3), NO_DROPS, 0)
    assert [label.label for label in step.frame.labels] == ["blue"]
    assert step.updates.state is not None
    assert (step.updates.state.previous, step.updates.state.state) == ("red", "blue")


def test_an_unknown_frame_has_no_label_and_changes_the_state(pipeline: Pipeline) -> None:
    model = pipeline.loaded.model
    rule = replace(model, task=replace(model.task, rejection=Rejection(3000)))  # grey: 90 * 16, pure colours: 255 * 16
    pipeline.set_model(LoadedModel(rule, "reference", BACKEND.compile(rule, {})))
    steps = steps_of(pipeline, ["red", "red", "grey", "grey", "grey", "green", "green"])
    frames = [step.frame for step in steps]
    assert [frame.unknown for frame in frames] == [False, False, True, True, True, False, False]
    assert [len(frame.labels) for frame in frames] == [2, 2, 0, 0, 0, 2, 2]
    assert [frame.state for frame in frames] == [None, "red", "red", None, None, None, "green"]
    assert steps[2].best is None
    events = [event for step in steps for event in step.updates.events]
    assert [(each.state, each.unknown, each.previous) for each in events] == [
        ("red", False, None),
        (None, True, "red"),
        ("green", False, None),
    ]
    states = [step.updates.state for step in steps if step.updates.state is not None]
    assert [(each.state, each.unknown, each.score is None) for each in states] == [
        ("red", False, False),
        (None, True, True),
        ("green", False, False),
    ]


def test_a_camera_can_want_a_label_for_every_frame(pipeline: Pipeline) -> None:
    model = pipeline.loaded.model
    rule = replace(model, task=replace(model.task, rejection=Rejection(3000)))
    pipeline.set_model(LoadedModel(rule, "reference", BACKEND.compile(rule, {})))
    pipeline.set_settings(CameraSettings(2, Rule(2, 3), reject_unknown=False))
    frames = [step.frame for step in steps_of(pipeline, ["grey", "grey"])]
    assert [(frame.unknown, frame.labels[0].label, frame.state) for frame in frames] == [
        (False, "red", None),
        (False, "red", "red"),
    ]


def test_a_frame_is_unknown_if_all_its_tiles_are(pipeline: Pipeline) -> None:
    model = pipeline.loaded.model
    rule = replace(model, task=replace(model.task, rejection=Rejection(3000)))
    reader = reader_of(rule, CameraSettings(1, Rule(1, 1)))
    logits = np.array([[[[1440, 1400, 0]]], [[[0, 10, 4080]]]], np.int32)
    whole = picture_of(rule, (48, 64, 3), TilesConfig())
    assert reader((logits,), whole).labels == [{"label": "blue", "score": pytest.approx(1.0, abs=1e-4)}]
    assert reader((logits[:1],), whole).unknown


@pytest.fixture
def finds_light() -> Model:
    """Looks at one pixel of 8 x 8: where it is white, the 8 x 8 pixels are a "lamp". The input has 64 x 64."""

    def conv(name: str, weight: int, bias: list[int]) -> Conv:
        weights = FixedWeights(np.full((len(bias), 1, 1, 3), weight, np.int8), 8, np.ones(1))
        output = TensorType((8, 8, len(bias)), bits=32, scale=0.05)
        return Conv(name, "input", output, weights=weights, bias=np.array(bias, np.int32), stride=(8, 8))

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


def followed_by(*models: Model) -> tuple[Pipeline, list[tuple[str, int]]]:
    """A pipeline that has seen a red square twice with each of these models; what the object did, and its id."""
    loaded = [LoadedModel(each, "reference", BACKEND.compile(each, {})) for each in models]
    pipeline = Pipeline(Identity("dev", "0" * 32), "front", loaded[0], CameraSettings(3, Rule(2, 3)), Clock())
    changes = []
    for number in range(2 * len(loaded)):
        pipeline.set_model(loaded[number // 2])
        frame = Frame(squares_picture({(1, 1): "red"}), number * 100_000_000)
        result = pipeline.classify(CapturedFrame("front", number + 1, frame, 0), NO_DROPS, 0)
        changes += [
            (each.change.value, each.object.id) for each in result.updates.events if each.change and each.object
        ]
    return pipeline, changes


def test_a_model_without_a_state_may_follow_one_with_a_state() -> None:
    _, changes = followed_by(named(colour_model()), named(VECTOR), named(colour_model()))
    assert changes == []


def named(model: Model) -> Model:
    return replace(model, digest="0" * 64)


def test_an_object_goes_on_with_another_model_of_the_same_labels() -> None:
    pipeline, changes = followed_by(named(square_detector()), named(square_detector()))
    assert changes == [("begin", 1)]
    assert [(each.change, each.sequence) for each in pipeline.end()] == [(ObjectChange.END, 4)]
    assert pipeline.end() == ()


VECTOR = replace(colour_model(), task=Embedding())


@pytest.mark.parametrize("other", [square_detector(("red", "green", "blue", "white")), colour_model(), VECTOR])
def test_an_object_ends_where_a_model_of_other_labels_or_another_task_follows(other: Model) -> None:
    _, changes = followed_by(named(square_detector()), named(other), named(square_detector()))
    assert changes[:2] == [("begin", 1), ("end", 1)]
    begun = [number for change, number in changes if change == "begin"]
    assert begun == list(range(1, len(begun) + 1))
