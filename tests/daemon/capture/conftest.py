"""Cameras with scripted sources."""

import time
from collections.abc import Callable, Iterator

import pytest

from edgemeta.daemon.capture.camera import Camera
from edgemeta.daemon.capture.load import UNHURRIED, CameraLoad
from edgemeta.daemon.capture.source import Frame
from edgemeta.daemon.config.camera import CameraConfig
from tests.daemon.capture.scripted import CONFIG, Scripted, Watch


@pytest.fixture
def start() -> Iterator[Callable[..., tuple[Camera, Watch]]]:
    started: list[tuple[Camera, Scripted]] = []

    def make(
        source: Scripted, load: CameraLoad = UNHURRIED, delivery: float = 0.0, config: CameraConfig = CONFIG
    ) -> tuple[Camera, Watch]:
        watch = Watch()

        def deliver(_: str, frame: Frame) -> None:
            time.sleep(delivery)
            watch.note(watch.frames, int(frame.pixels[0, 0, 0]))

        camera = Camera(
            "front",
            config,
            source,
            deliver,
            lambda _, status: watch.note(watch.reported, status),
            lambda error: watch.note(watch.crashes, error),
            load,
        )
        camera.start()
        started.append((camera, source))
        return camera, watch

    yield make
    for camera, source in started:
        camera.stop()
        source.done.set()
        camera.join(60)
