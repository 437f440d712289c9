"""The worker over real sessions: frames of several cameras that are ready together run as one batch, or one by one."""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest

from edgemeta.daemon.capture.latest_frames import CapturedFrame, LatestFrames
from edgemeta.daemon.capture.source import Frame
from edgemeta.daemon.config.config import BatchConfig
from edgemeta.daemon.inference.loaded_model import LoadedModel
from edgemeta.daemon.inference.pipeline import FrameResult, Identity, Pipeline
from edgemeta.daemon.inference.readers.settings import CameraSettings
from edgemeta.daemon.inference.tracking.label import Rule
from edgemeta.daemon.inference.worker import Worker
from edgemeta.daemon.metrics.counters import FrameCounters
from edgemeta.daemon.runtime.clock import Clock
from edgemeta.plugins.api import BackendError, Batch, Outputs, Session
from edgemeta.plugins.cpu.backend import BACKEND
from rig.waiting import wait_until
from tests.daemon.conftest import colour_model

BGR = {"red": (0, 0, 255), "green": (0, 255, 0), "blue": (255, 0, 0)}
SIZES = {"red": (48, 64), "green": (30, 30), "blue": (64, 48)}
CAMERAS = list(BGR)


class Watched:
    """A session of the C++ library that records the size of every batch, and may fail or hang before it."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.batches: list[int] = []
        self.before: Callable[[int], None] = lambda images: None
        self.close = session.close

    def run(self, batch: Batch) -> Outputs:
        self.batches.append(len(batch))
        self.before(len(batch))
        return self._session.run(batch)


class Rig:
    """A worker of cameras that show one colour each, and its results."""

    def __init__(self) -> None:
        self.frames = LatestFrames(CAMERAS)
        self.session, self.loaded = self.load()
        self.pipelines = {camera: self.pipeline(camera, self.loaded) for camera in CAMERAS}
        self.counters = {camera: FrameCounters() for camera in CAMERAS}
        self.crashes: list[BaseException] = []
        self.results: list[tuple[CapturedFrame, FrameResult]] = []
        self.worker = Worker(self.frames, self.pipelines, self.counters, self._publish, self.crashes.append)

    def _publish(self, captured: CapturedFrame, step: FrameResult) -> None:
        self.results.append((captured, step))

    def load(self, name: str = "colour") -> tuple[Watched, LoadedModel]:
        model = replace(colour_model(), name=name, digest="0" * 64)
        session = Watched(BACKEND.compile(model, {}))
        return session, LoadedModel(model, "cpu", session)

    def pipeline(self, camera: str, loaded: LoadedModel) -> Pipeline:
        return Pipeline(Identity("dev", "0" * 32), camera, loaded, CameraSettings(1, Rule(1, 1)), Clock())

    def put(self, *cameras: str) -> None:
        for camera in cameras:
            pixels = np.full((*SIZES[camera], 3), BGR[camera], np.uint8)
            self.frames.put(camera, Frame(pixels, time.monotonic_ns()))

    def wait_for(self, results: int) -> None:
        wait_until(lambda: len(self.results) >= results or bool(self.crashes), f"{results} results")
        assert self.crashes == []

    @contextmanager
    def running(self, max_frames: int = 1, wait_ms: float = 0) -> Iterator[None]:
        self.worker.batch = BatchConfig.model_construct(max_frames=max_frames, wait_ms=wait_ms)
        self.worker.start()
        try:
            yield
        finally:
            self.frames.close()
            assert self.worker.end(60)
            self.loaded.close()

    def assert_each_camera_has_its_colour(self) -> None:
        assert {captured.camera for captured, _ in self.results} == set(CAMERAS)
        for captured, step in self.results:
            assert step.best is not None
            assert step.best["label"] == captured.camera == step.fields["camera"]


@pytest.fixture
def rig() -> Rig:
    return Rig()


@pytest.mark.parametrize(("most", "batches"), [(1, [1, 1, 1]), (2, [2, 1]), (3, [3]), (64, [3])])
def test_frames_that_wait_together_run_together(rig: Rig, most: int, batches: list[int]) -> None:
    """Frames of different sizes, each with the result of its own camera."""
    rig.put(*CAMERAS)
    with rig.running(most):
        rig.wait_for(3)
        rig.put(*CAMERAS)
        rig.wait_for(6)
    assert rig.session.batches[: len(batches)] == batches
    rig.assert_each_camera_has_its_colour()


def test_stages_of_each_frame_add_up_to_its_total(rig: Rig) -> None:
    rig.put(*CAMERAS)
    with rig.running(3):
        rig.wait_for(3)
    assert rig.session.batches == [3]
    for _, step in rig.results:
        fields = step.fields["latency_us"]
        assert abs(sum(value for stage, value in fields.items() if stage != "total") - fields["total"]) <= 4
    inference = {step.stages["inference"] for _, step in rig.results}
    assert len(inference) == 1, "a frame's message waits for the whole batch"
    posts = [step.stages["postprocess"] for _, step in rig.results]
    assert posts == sorted(posts), "and for the messages before it"


def test_a_frame_waits_for_others_no_longer_than_the_bound(rig: Rig) -> None:
    with rig.running(3, wait_ms=1000):
        begun = time.monotonic()
        rig.put("red")
        time.sleep(0.02)
        rig.put("green")
        rig.wait_for(2)
        took = time.monotonic() - begun
    assert rig.session.batches == [2]
    assert took >= 0.99, "blue could still have come"
    waits = {captured.camera: step.stages["wait"] for captured, step in rig.results}
    assert waits["red"] >= 990_000_000, "the stage `wait` says so"
    assert waits["green"] < waits["red"]


def test_all_cameras_are_there_before_the_bound(rig: Rig) -> None:
    rig.put(*CAMERAS)
    begun = time.monotonic()
    with rig.running(3, wait_ms=60_000):
        rig.wait_for(3)
        assert time.monotonic() - begun < 30
    assert rig.session.batches == [3]


def test_only_frames_of_the_same_model_run_together(rig: Rig) -> None:
    session, other = rig.load("other")
    rig.pipelines["green"].set_model(other)
    rig.put(*CAMERAS)
    with rig.running(3):
        rig.wait_for(3)
    other.close()
    assert (rig.session.batches, session.batches) == ([2], [1])
    rig.assert_each_camera_has_its_colour()


def test_an_unusable_frame_does_not_take_others_with_it(rig: Rig) -> None:
    rig.put("red", "blue")
    rig.frames.put("green", Frame(np.zeros((4, 4, 4), np.uint8), time.monotonic_ns()))
    with rig.running(3):
        rig.wait_for(2)
        wait_until(lambda: rig.counters["green"].failed == 1, "the failed frame")
    assert {captured.camera for captured, _ in rig.results} == {"red", "blue"}
    assert (rig.counters["red"].failed, rig.counters["green"].processed) == (0, 0)


def test_a_batch_that_fails_runs_one_by_one_and_says_why_once(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    def fail(images: int) -> None:
        if images > 1:
            raise BackendError("backend cpu: no memory for three")

    rig.session.before = fail
    rig.put(*CAMERAS)
    with caplog.at_level(logging.WARNING), rig.running(3):
        rig.wait_for(3)
        rig.put(*CAMERAS)
        rig.wait_for(6)
    rig.assert_each_camera_has_its_colour()
    said = [record.message for record in caplog.records if "one by one" in record.message]
    assert said == ["frames of 3 cameras do not run together but one by one: backend cpu: no memory for three"]


def test_a_thread_that_hangs_on_a_batch_is_abandoned_and_no_frame_is_lost(rig: Rig) -> None:
    """The old model takes over all frames of the batch; what the hanging thread says later is discarded."""
    goes_on = threading.Event()
    rig.session.before = lambda images: assert_set(goes_on)
    session, other = rig.load("other")
    rig.put(*CAMERAS)
    with rig.running(3):
        wait_until(lambda: len(rig.worker.hangs_on(0.05)) == 3, "a hang")
        assert set(rig.worker.hangs_on(0.05)) == set(CAMERAS)
        for pipeline in rig.pipelines.values():
            pipeline.set_model(other)
        rig.worker.abandon_thread()
        rig.wait_for(3)
        goes_on.set()
        time.sleep(0.05)
        assert rig.worker.hangs_on(0) == ()
    other.close()
    assert session.batches == [1, 1, 1]
    assert [counters.processed for counters in rig.counters.values()] == [1, 1, 1]
    assert len(rig.results) == 3
    rig.assert_each_camera_has_its_colour()


def assert_set(event: threading.Event) -> None:
    assert event.wait(60)
