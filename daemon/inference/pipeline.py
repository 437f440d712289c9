"""From a captured frame to its messages: a pure function of its input. No camera, no broker, no files."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from edgemeta.daemon.capture.latest_frames import CapturedFrame
from edgemeta.daemon.inference.labels import LabelMap
from edgemeta.daemon.inference.loaded_model import LoadedModel
from edgemeta.daemon.inference.settings import CameraSettings
from edgemeta.daemon.inference.smoothing import Smoother
from edgemeta.daemon.inference.state_reporter import StateReporter, Updates
from edgemeta.daemon.messages.frame_fields import DropFields, FrameFields, LabelFields, ModelFields
from edgemeta.daemon.messages.records import SCHEMA_VERSION, FrameMessage, ModelIdentity
from edgemeta.daemon.runtime.clock import Clock
from edgemeta.plugins.api import BackendError, Batch
from edgemeta.plugins.preprocess import make_preprocessor
from edgemeta.tasks.classification import logits_of

Now = Callable[[], int]
"""Monotonic nanoseconds."""


@dataclass(frozen=True)
class Identity:
    """The sender in every message: the device, and a random id of this start."""

    device: str
    boot: str


@dataclass(frozen=True)
class FrameResult:
    """The result of one frame: the fields of its message, its state and event updates, the time of each stage in ns."""

    fields: FrameFields
    updates: Updates
    stages: dict[str, int]

    @cached_property
    def frame(self) -> FrameMessage:
        """The message as a validated record, made on demand: this costs more than the JSON."""
        return FrameMessage.model_validate(self.fields)


class Pipeline:
    """One camera's way from pixels to messages. Pipelines of several cameras may share a loaded model."""

    def __init__(
        self,
        identity: Identity,
        camera: str,
        loaded: LoadedModel,
        settings: CameraSettings,
        clock: Clock,
        now: Now = time.monotonic_ns,
    ) -> None:
        self._identity = identity
        self._camera = camera
        self._loaded = self._wanted_loaded = loaded
        self._settings = self._wanted_settings = settings
        self._labels = LabelMap(loaded.model, settings.labels)
        self._model_identity = _fields_of(loaded.identity)
        self._smoother = Smoother(settings.rule)
        self._reporter = StateReporter()
        self._clock = clock
        self._now = now
        self._shape: tuple[int, ...] = ()
        self._prepare: Callable[..., Batch]

    def set_settings(self, settings: CameraSettings) -> None:
        """Use other settings from the next frame on. Any thread may call this while another classifies."""
        self._wanted_settings = settings

    def set_model(self, loaded: LoadedModel) -> None:
        """Use another model from the next frame on. Any thread may call this while another classifies."""
        self._wanted_loaded = loaded

    @property
    def loaded(self) -> LoadedModel:
        """The model that classified the last frame."""
        return self._loaded

    @property
    def model_changed(self) -> bool:
        """Whether the next frame will be classified by another model than the last."""
        return self._wanted_loaded is not self._loaded

    def classify(self, captured: CapturedFrame, dropped: DropFields, withheld: int) -> FrameResult:
        """Classify one frame; dropped (by reason) and withheld count the frames before it.

        Raises FrameError for unusable pixels, BackendError where the backend failed.
        """
        taken = self._now()
        self._apply_wanted()
        loaded, batch = self._loaded, self._preprocess(captured)
        prepared = self._now()
        logits = logits_of(loaded.run(batch))[0]
        inferred = self._now()
        if self._loaded is not loaded:
            raise BackendError(f"{loaded.description} answered after its frame was given to another model")
        shares = self._labels.scores(logits)
        names = self._labels.names
        labels: list[LabelFields] = [
            {"label": names[place], "score": round(float(shares[place]), 6)}
            for place in self._labels.rank(logits, shares, self._settings.top)
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
        fields: FrameFields = {
            "schema_version": SCHEMA_VERSION,
            "device": self._identity.device,
            "boot": self._identity.boot,
            "id": 0,
            "camera": self._camera,
            "sequence": captured.sequence,
            "captured": self._clock.utc(came),
            "clock_synchronized": self._clock.synchronized,
            "model": self._model_identity,
            "backend": self._loaded.backend,
            "labels": labels,
            "state": state,
            "latency_us": {
                "wait": (taken - came) // 1000,
                "preprocess": (prepared - taken) // 1000,
                "inference": (inferred - prepared) // 1000,
                "postprocess": (finished - inferred) // 1000,
                "total": (finished - came) // 1000,
            },
            "dropped": dropped,
            "withheld": withheld,
            "historical": False,
        }
        return FrameResult(fields, self._reporter.update(fields, change, score, came, self._settings), stages)

    def _apply_wanted(self) -> None:
        """Apply a new model or new settings; the state and the recent frames it is based on stay."""
        loaded, settings = self._wanted_loaded, self._wanted_settings
        if loaded is self._loaded and settings is self._settings:
            return
        if loaded is not self._loaded:
            self._shape = ()
        self._loaded, self._settings = loaded, settings
        self._labels = LabelMap(loaded.model, settings.labels)
        self._model_identity = _fields_of(loaded.identity)
        self._smoother.set_rule(settings.rule)

    def _preprocess(self, captured: CapturedFrame) -> Batch:
        """Prepare the pixels; a new frame size makes a new preprocessor and releases the old one."""
        pixels = captured.frame.pixels
        if pixels.shape != self._shape:
            self._prepare = make_preprocessor(self._loaded.model, pixels.shape)
            self._shape = pixels.shape
        return self._prepare(pixels)


def _fields_of(model: ModelIdentity) -> ModelFields:
    return {"name": model.name, "sha256": model.sha256}
