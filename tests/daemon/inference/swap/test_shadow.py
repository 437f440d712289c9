"""The shadow run compares as many frames as it was asked to, also where frames come faster than it answers."""

import threading
from pathlib import Path

import numpy as np
import pytest

from edgemeta.daemon.capture.latest_frames import CapturedFrame
from edgemeta.daemon.capture.source import Frame
from edgemeta.daemon.inference.loaded_model import LoadedModel
from edgemeta.daemon.inference.pipeline import FrameResult, Identity, Pipeline
from edgemeta.daemon.inference.readers.settings import CameraSettings
from edgemeta.daemon.inference.swap.replacement import Replacement
from edgemeta.daemon.inference.swap.shadow import Shadow
from edgemeta.daemon.inference.tracking.label import Rule
from edgemeta.daemon.messages.records import Fields
from edgemeta.daemon.runtime.clock import Clock
from edgemeta.model.file import load
from edgemeta.plugins.reference.backend import BACKEND
from rig.waiting import wait_until

NO_DROPS: Fields = {"superseded": 0, "failed": 0, "outbox": 0, "refused": 0, "stopped": 0}
SETTINGS = CameraSettings(1, Rule(1, 1))


class PausedPipeline(Pipeline):
    """Waits for `go` before each frame."""

    def __init__(self, loaded: LoadedModel) -> None:
        super().__init__(Identity("dev", "0" * 32), "front", loaded, SETTINGS, Clock())
        self.go = threading.Semaphore(0)
        self.begun = 0

    def classify(self, captured: CapturedFrame, dropped: Fields, withheld: int) -> FrameResult:
        self.begun += 1
        self.go.acquire()
        return super().classify(captured, dropped, withheld)


@pytest.fixture
def loaded(model_file: Path) -> LoadedModel:
    model = load(model_file)
    return LoadedModel(model, "reference", BACKEND.compile(model, {}))


def test_a_frame_offered_while_the_last_one_is_classified_is_not_compared(loaded: LoadedModel) -> None:
    fatal: list[BaseException] = []
    live = Pipeline(Identity("dev", "0" * 32), "front", loaded, SETTINGS, Clock())
    paused = PausedPipeline(loaded)
    replacement = Replacement(loaded, loaded, ("front",))
    shadow = Shadow([replacement], {"front": paused}, 2, threading.Condition(), fatal.append)
    shadow.start()
    for sequence in (1, 2, 3):
        captured = CapturedFrame("front", sequence, Frame(np.zeros((48, 64, 3), np.uint8), 1), 0)
        shadow.on_frame(captured, live.classify(captured, NO_DROPS, 0))
        if sequence < 3:
            wait_until(lambda begun=sequence: paused.begun == begun, "the shadow's frame")
        if sequence == 1:
            paused.go.release()
    paused.go.release(2)
    wait_until(lambda: shadow.done, "the shadow run")
    shadow.end()
    assert (paused.begun, shadow.result(replacement).frames, shadow.result(replacement).same_label) == (2, 2, 1.0)
    assert not fatal
