"""The pure step in the middle: a captured frame in, its message out. No camera, no broker, no files."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from edgemeta.daemon.clock import Clock
from edgemeta.daemon.messages import Drops, FrameLatency, FrameMessage, LabelScore, StateMessage
from edgemeta.daemon.network import Network
from edgemeta.daemon.slot import CapturedFrame
from edgemeta.daemon.smoothing import Smoother
from edgemeta.model.classification import top_k
from edgemeta.plugins.api import Batch
from edgemeta.plugins.preprocess import make_preprocessor

Now = Callable[[], int]
"""Monotonic nanoseconds."""


@dataclass(frozen=True)
class Identity:
    """Who speaks, in every message."""

    device: str
    boot: str


@dataclass(frozen=True)
class Step:
    """What one frame came to: its message, the change of state if it brought one, and the time of each stage in ns."""

    frame: FrameMessage
    state: StateMessage | None
    stages: dict[str, int]


@dataclass(frozen=True)
class Tuning:
    """What may change between two frames: labels named in a message, and when the smoothed label changes."""

    top: int
    agree: int
    window: int


class Pipeline:
    """One camera's way from pixels to message, over a network that other cameras' pipelines may share."""

    def __init__(
        self,
        identity: Identity,
        camera: str,
        network: Network,
        tuning: Tuning,
        clock: Clock,
        now: Now = time.monotonic_ns,
    ) -> None:
        self._identity = identity
        self._camera = camera
        self._network = network
        self._tuning = self._wanted = tuning
        self._smoother = Smoother(tuning.agree, tuning.window)
        self._clock = clock
        self._now = now
        self._shape: tuple[int, ...] = ()
        self._prepare: Callable[..., Batch]

    def tune(self, tuning: Tuning) -> None:
        """Go by other numbers from the next frame on. Any thread may call this, beside the one that steps."""
        self._wanted = tuning

    def step(self, captured: CapturedFrame, dropped: Drops) -> Step:
        """Classify one frame. Raises FrameError for unusable pixels, BackendError where the backend failed."""
        taken = self._now()
        if self._wanted is not self._tuning:
            self._tuning = self._wanted
            self._smoother.look_back(self._tuning.agree, self._tuning.window)
        batch = self._preprocess(captured)
        prepared = self._now()
        logits = self._network.session.run(batch)[0]
        inferred = self._now()
        labels = [
            LabelScore(label=label, score=round(score, 6))
            for label, score in top_k(self._network.model, logits, self._tuning.top)
        ]
        previous = self._smoother.label
        changed = self._smoother.add(labels[0].label)
        finished = self._now()

        came = captured.frame.captured_ns
        stages = {
            "wait": taken - came,
            "preprocess": prepared - taken,
            "inference": inferred - prepared,
            "postprocess": finished - inferred,
        }
        when = self._clock.utc(came)
        synchronized = self._clock.synchronized
        frame = FrameMessage(
            device=self._identity.device,
            boot=self._identity.boot,
            camera=self._camera,
            sequence=captured.sequence,
            captured=when,
            clock_synchronized=synchronized,
            model=self._network.identity,
            backend=self._network.backend,
            labels=labels,
            state=self._smoother.label,
            latency_us=FrameLatency(
                **{stage: ns // 1000 for stage, ns in stages.items()}, total=(finished - came) // 1000
            ),
            dropped=dropped,
        )
        if not changed or self._smoother.label is None:
            return Step(frame, None, stages)
        state = StateMessage(
            device=self._identity.device,
            boot=self._identity.boot,
            camera=self._camera,
            state=self._smoother.label,
            previous=previous,
            sequence=captured.sequence,
            since=when,
            clock_synchronized=synchronized,
        )
        return Step(frame, state, stages)

    def _preprocess(self, captured: CapturedFrame) -> Batch:
        """Prepare the pixels; a new frame size makes a new preparation, and the old one is let go."""
        pixels = captured.frame.pixels
        if pixels.shape != self._shape:
            self._prepare = make_preprocessor(self._network.model, pixels.shape)
            self._shape = pixels.shape
        return self._prepare(pixels)
