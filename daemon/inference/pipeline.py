"""The pure step in the middle: a captured frame in, its messages out. No camera, no broker, no files."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from edgemeta.daemon.capture.latest_frames import CapturedFrame
from edgemeta.daemon.inference.labels import LabelMap
from edgemeta.daemon.inference.loaded_model import LoadedModel
from edgemeta.daemon.inference.settings import CameraSettings
from edgemeta.daemon.inference.smoothing import Smoother
from edgemeta.daemon.inference.state_reporter import StateReporter, Updates
from edgemeta.daemon.messages.records import SCHEMA_VERSION, FrameMessage
from edgemeta.daemon.runtime.clock import Clock
from edgemeta.plugins.api import BackendError, Batch
from edgemeta.plugins.preprocess import make_preprocessor

Now = Callable[[], int]
"""Monotonic nanoseconds."""


@dataclass(frozen=True)
class Identity:
    """Who speaks, in every message."""

    device: str
    boot: str


@dataclass(frozen=True)
class FrameResult:
    """What one frame came to: the fields of its message, what is told beside it, and the time of each stage in ns."""

    fields: dict[str, Any]
    told: Updates
    stages: dict[str, int]

    @cached_property
    def frame(self) -> FrameMessage:
        """The message as a record. It is made, and checked, only where it is wanted: it costs more than the JSON."""
        return FrameMessage.model_validate(self.fields)


class Pipeline:
    """One camera's way from pixels to messages, over a network that other cameras' pipelines may share."""

    def __init__(
        self,
        identity: Identity,
        camera: str,
        network: LoadedModel,
        tuning: CameraSettings,
        clock: Clock,
        now: Now = time.monotonic_ns,
    ) -> None:
        self._identity = identity
        self._camera = camera
        self._network = self._wanted_network = network
        self._tuning = self._wanted_tuning = tuning
        self._naming = LabelMap(network.model, tuning.labels)
        self._identity_of_network = network.identity.model_dump()
        self._smoother = Smoother(tuning.rule)
        self._teller = StateReporter()
        self._clock = clock
        self._now = now
        self._shape: tuple[int, ...] = ()
        self._prepare: Callable[..., Batch]

    def tune(self, tuning: CameraSettings) -> None:
        """Go by another tuning from the next frame on. Any thread may call this, beside the one that steps."""
        self._wanted_tuning = tuning

    def use(self, network: LoadedModel) -> None:
        """Ask another network from the next frame on. Any thread may call this, beside the one that steps."""
        self._wanted_network = network

    @property
    def network(self) -> LoadedModel:
        """The network that the last frame was given to."""
        return self._network

    @property
    def renewed(self) -> bool:
        """Whether the next frame will be given to another network than the last."""
        return self._wanted_network is not self._network

    def step(self, captured: CapturedFrame, dropped: dict[str, int], withheld: int) -> FrameResult:
        """Classify one frame; dropped (by reason) and withheld count the frames before it.

        Raises FrameError for unusable pixels, BackendError where the backend failed.
        """
        taken = self._now()
        self._go_by_what_is_wanted()
        network, batch = self._network, self._preprocess(captured)
        prepared = self._now()
        logits = network.run(batch)[0]
        inferred = self._now()
        if self._network is not network:
            raise BackendError(f"{network.description} answered when its frame had been given to another network")
        shares = self._naming.scores(logits)
        names = self._naming.names
        labels = [
            {"label": names[place], "score": round(float(shares[place]), 6)}
            for place in self._naming.rank(logits, shares, self._tuning.top)
        ]
        came = captured.frame.captured_ns
        change = self._smoother.add(labels[0]["label"], labels[0]["score"], came)
        state = self._smoother.label
        score = round(float(shares[names.index(state)]), 6) if state in names else None
        finished = self._now()

        stages = {
            "wait": taken - came,
            "preprocess": prepared - taken,
            "inference": inferred - prepared,
            "postprocess": finished - inferred,
        }
        fields = {
            "schema_version": SCHEMA_VERSION,
            "device": self._identity.device,
            "boot": self._identity.boot,
            "id": 0,
            "camera": self._camera,
            "sequence": captured.sequence,
            "captured": self._clock.utc(came),
            "clock_synchronized": self._clock.synchronized,
            "model": self._identity_of_network,
            "backend": self._network.backend,
            "labels": labels,
            "state": state,
            "latency_us": {**{stage: ns // 1000 for stage, ns in stages.items()}, "total": (finished - came) // 1000},
            "dropped": dropped,
            "withheld": withheld,
            "historical": False,
        }
        return FrameResult(fields, self._teller.tell(fields, change, score, came, self._tuning), stages)

    def _go_by_what_is_wanted(self) -> None:
        """Take over another network or tuning; the state and the frames looked back on stay."""
        network, tuning = self._wanted_network, self._wanted_tuning
        if network is self._network and tuning is self._tuning:
            return
        if network is not self._network:
            self._shape = ()
        self._network, self._tuning = network, tuning
        self._naming = LabelMap(network.model, tuning.labels)
        self._identity_of_network = network.identity.model_dump()
        self._smoother.follow(tuning.rule)

    def _preprocess(self, captured: CapturedFrame) -> Batch:
        """Prepare the pixels; a new frame size makes a new preparation, and the old one is let go."""
        pixels = captured.frame.pixels
        if pixels.shape != self._shape:
            self._prepare = make_preprocessor(self._network.model, pixels.shape)
            self._shape = pixels.shape
        return self._prepare(pixels)
