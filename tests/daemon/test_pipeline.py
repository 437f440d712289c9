"""The pure step: pixels in, message out, over a real session."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from edgemeta.daemon.clock import Clock
from edgemeta.daemon.messages import Drops
from edgemeta.daemon.network import Network
from edgemeta.daemon.pipeline import Identity, Pipeline, Tuning
from edgemeta.daemon.slot import CapturedFrame
from edgemeta.daemon.sources.api import Frame
from edgemeta.model.errors import FrameError
from edgemeta.model.file import load
from edgemeta.plugins.api import BackendError
from edgemeta.plugins.reference.backend import BACKEND

NO_DROPS = Drops(superseded=0, failed=0, outbox=0, stopped=0)
BGR = {"red": (0, 0, 255), "green": (0, 255, 0), "blue": (255, 0, 0)}


@pytest.fixture
def ticking() -> Callable[[], int]:
    """A clock that moves 1 ms at each look, from 1 s on."""
    moments: Iterator[int] = iter(range(10**9, 10**12, 10**6))
    return lambda: next(moments)


@pytest.fixture
def pipeline(ticking: Callable[[], int], model_file: Path) -> Pipeline:
    model = load(model_file)
    network = Network(model, "reference", BACKEND.compile(model, {}))
    return Pipeline(Identity("dev", "0" * 32), "front", network, Tuning(top=2, agree=2, window=3), Clock(), ticking)


def captured(colour: str, sequence: int = 1, shape: tuple[int, int] = (48, 64)) -> CapturedFrame:
    return CapturedFrame("front", sequence, Frame(np.full((*shape, 3), BGR[colour], np.uint8), 990_000_000), 0)


def test_a_frame_becomes_its_message(pipeline: Pipeline) -> None:
    dropped = Drops(superseded=3, failed=0, outbox=2, stopped=0)
    message = pipeline.step(captured("green", 6), dropped).frame
    assert [label.label for label in message.labels] == ["green", "red"]
    z = np.array([255, 0, 0]) * 16 / 255
    expected = np.exp(z) / np.exp(z).sum()
    assert [label.score for label in message.labels] == pytest.approx(expected[:2], abs=1e-6)
    assert (message.device, message.camera, message.sequence, message.backend) == ("dev", "front", 6, "reference")
    assert message.dropped == dropped


def test_stages_are_measured_one_after_the_other(pipeline: Pipeline) -> None:
    step = pipeline.step(captured("red"), NO_DROPS)
    assert step.stages == {"wait": 10**7, "preprocess": 10**6, "inference": 10**6, "postprocess": 10**6}
    assert step.frame.latency_us.model_dump() == {
        "wait": 10_000,
        "preprocess": 1000,
        "inference": 1000,
        "postprocess": 1000,
        "total": 13_000,
    }


def test_a_state_message_comes_with_each_change_only(pipeline: Pipeline) -> None:
    labels = ["red", "red", "blue", "red", "blue", "blue"]
    steps = [pipeline.step(captured(label, number), NO_DROPS) for number, label in enumerate(labels, 1)]
    assert [step.frame.state for step in steps] == [None, "red", "red", "red", "blue", "blue"]
    changes = [step.state for step in steps if step.state is not None]
    assert [(change.state, change.previous, change.sequence) for change in changes] == [
        ("red", None, 2),
        ("blue", "red", 5),
    ]


def test_frames_may_change_their_size(pipeline: Pipeline) -> None:
    for shape in ((48, 64), (1, 1), (360, 480), (48, 64)):
        assert pipeline.step(captured("blue", shape=shape), NO_DROPS).frame.labels[0].label == "blue"


def test_pixels_that_are_no_picture_are_refused(pipeline: Pipeline) -> None:
    frame = CapturedFrame("front", 1, Frame(np.zeros((4, 4, 2), np.uint8), 0), 0)
    with pytest.raises(FrameError):
        pipeline.step(frame, NO_DROPS)


def test_a_failing_backend_is_told(pipeline: Pipeline) -> None:
    pipeline._network.close()
    with pytest.raises(BackendError, match="closed"):
        pipeline.step(captured("red"), NO_DROPS)


def test_other_numbers_count_from_the_next_frame_on_and_what_was_seen_stays(pipeline: Pipeline) -> None:
    """With 1 of 1 instead of 2 of 3 every frame's label is the state at once; one label is named instead of two."""
    assert pipeline.step(captured("red", 1), NO_DROPS).frame.state is None
    pipeline.tune(Tuning(top=2, agree=2, window=2))
    assert pipeline.step(captured("red", 2), NO_DROPS).frame.state == "red"
    pipeline.tune(Tuning(top=1, agree=1, window=1))
    step = pipeline.step(captured("blue", 3), NO_DROPS)
    assert [label.label for label in step.frame.labels] == ["blue"]
    assert step.state is not None
    assert (step.state.previous, step.state.state) == ("red", "blue")
