"""A source that does what a list says, and what its camera delivered and told."""

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from edgemeta.daemon.capture.camera import CameraStatus
from edgemeta.daemon.capture.source import Frame, SourceEnded
from edgemeta.daemon.config.camera import CameraConfig
from edgemeta.daemon.config.section import RetryConfig

CONFIG = CameraConfig(
    source="scripted",
    frozen_after=0.2,
    black_after=0.1,
    delayed_after=0.3,
    retry=RetryConfig(initial_delay=0.01, max_delay=0.02),
)


class Scripted:
    """A source that does what a list says: a number is a frame, an exception is raised, at the end it waits."""

    live = True

    def __init__(self, *script: int | BaseException, interval_ns: int = 0) -> None:
        self.script = list(script)
        self.interval_ns = interval_ns
        self.opened = self.closed = 0
        self.done = threading.Event()

    def open(self) -> None:
        self.opened += 1

    def read(self) -> Frame:
        if not self.script:
            self.done.wait()
            raise SourceEnded
        step = self.script.pop(0)
        if isinstance(step, BaseException):
            raise step
        return Frame(np.full((1, 1, 3), step, np.uint8), time.monotonic_ns())

    def close(self) -> None:
        self.closed += 1


class Watch:
    """What a camera delivered and told, with its crashes."""

    def __init__(self) -> None:
        self.frames: list[int] = []
        self.reported: list[CameraStatus] = []
        self.crashes: list[BaseException] = []
        self.changed = threading.Condition()

    def note(self, target: list[Any], item: Any) -> None:
        with self.changed:
            target.append(item)
            self.changed.notify_all()

    def wait(self, condition: Callable[[], bool]) -> None:
        with self.changed:
            assert self.changed.wait_for(condition, 60)

    @property
    def states(self) -> list[str]:
        return [status.state.value for status in self.reported]
