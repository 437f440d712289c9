"""From a captured frame to its messages: a pure function of its input. No camera, no broker, no files."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from typing import NamedTuple

from edgemeta.daemon.capture.latest_frames import CapturedFrame
from edgemeta.daemon.config.camera import TilesConfig
from edgemeta.daemon.inference.loaded_model import LoadedModel
from edgemeta.daemon.inference.object_names import ObjectNames
from edgemeta.daemon.inference.readers.by_task import reader_of
from edgemeta.daemon.inference.readers.reading import Picture
from edgemeta.daemon.inference.readers.settings import CameraSettings
from edgemeta.daemon.inference.state_reporter import StateReporter, Updates
from edgemeta.daemon.inference.tracking.by_task import tracker_of
from edgemeta.daemon.inference.tracking.tracker import Event
from edgemeta.daemon.messages.events import EventMessage
from edgemeta.daemon.messages.records import SCHEMA_VERSION, Box, Fields, FrameMessage, ModelIdentity
from edgemeta.daemon.runtime.clock import Clock
from edgemeta.model.errors import FrameError
from edgemeta.model.graph import Model
from edgemeta.model.preprocess import Rectangle, placement
from edgemeta.plugins.api import BackendError, Outputs
from edgemeta.plugins.frames import FrameInput
from edgemeta.tasks.tiles import cut

Now = Callable[[], int]
"""A monotonic clock in nanoseconds."""


@dataclass(frozen=True)
class Identity:
    """The sender in every message: the device, and a random id of this start."""

    device: str
    boot: str


@dataclass(frozen=True)
class FrameResult:
    """The result of one frame: the fields of its message, its state and event updates, the time of each stage in ns.

    best: its best label or object as a `LabelScore`, None without any. best_of: the objects that this frame shows best
    so far, by id, and their boxes in pixels of the classified picture.
    """

    fields: Fields
    best: Fields | None
    updates: Updates
    stages: dict[str, int]
    best_of: Mapping[int, Box] = field(default_factory=dict)

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
        names: ObjectNames | None = None,
    ) -> None:
        """names: of objects; None: they have none."""
        self._names = names
        self._identity = identity
        self._camera = camera
        self._loaded = self._wanted_loaded = loaded
        self._settings = self._wanted_settings = settings
        self._reader = reader_of(loaded.model, settings)
        self._object_ids = count(1)
        self._tracker = tracker_of(loaded.model, self._object_ids)
        self._model_identity = _fields_of(loaded.identity)
        self._reporter = StateReporter(clock)
        self._clock = clock
        self._now = now
        self._shape: tuple[int, ...] = ()
        self._ended: Sequence[Event] = ()
        self._newest: Fields | None = None
        self._input: FrameInput
        self._picture: Picture

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
    def next_loaded(self) -> LoadedModel:
        """The model that will classify the next frame."""
        return self._wanted_loaded

    @property
    def model_changed(self) -> bool:
        """Whether the next frame will be classified by another model than the last."""
        return self._wanted_loaded is not self._loaded

    def classify(self, captured: CapturedFrame, dropped: Fields, withheld: int) -> FrameResult:
        """Classify one frame; dropped (by reason) and withheld count the frames before it.

        Raises FrameError for unusable pixels, BackendError where the backend failed.
        """
        (ran,) = run_together([self.begin(captured)])
        return self.finish(ran, dropped, withheld)

    def begin(self, captured: CapturedFrame) -> "Begun":
        """Begin with a frame: apply new settings, look at its shape. Raises FrameError."""
        taken = self._now()
        self._apply_wanted()
        return Begun(captured, self._loaded, self._input_for(captured.frame.pixels.shape), taken, self._now)

    def finish(self, ran: "Ran", dropped: Fields, withheld: int) -> FrameResult:
        """Make the result of a frame that has been run; otherwise as `classify`."""
        captured, loaded = ran.begun.captured, ran.begun.loaded
        if self._loaded is not loaded:
            raise BackendError(f"{loaded.description} answered after its frame was given to another model")
        taken, prepared, inferred, came = ran.begun.taken, ran.prepared, ran.inferred, captured.frame.captured_ns
        outputs, delay = ran.outputs, captured.frame.delay_ns
        reading = self._reader(outputs, self._picture)
        if self._names is not None and reading.objects:
            self._names.name(reading.objects, captured.frame.pixels)
        tracked = self._tracker.add(reading, self._settings, came)
        if self._ended:
            tracked, self._ended = tracked._replace(events=[*self._ended, *tracked.events]), ()
        for found, number in zip(reading.objects or (), tracked.ids, strict=False):
            found["id"] = number
        finished = self._now()

        stages = {
            "delay": delay,
            "wait": taken - came - delay,
            "preprocess": prepared - taken,
            "inference": inferred - prepared,
            "postprocess": finished - inferred,
        }
        fields: Fields = {
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
            "labels": reading.labels,
            "unknown": reading.unknown,
            "objects": reading.objects,
            "embedding": reading.embedding,
            "keypoints": reading.keypoints,
            "segments": reading.segments,
            "outputs": reading.outputs,
            "state": tracked.state,
            "counts": tracked.counts,
            "zones": tracked.zones,
            "latency_us": {
                "delay": delay // 1000,
                "wait": (taken - came - delay) // 1000,
                "preprocess": (prepared - taken) // 1000,
                "inference": (inferred - prepared) // 1000,
                "postprocess": (finished - inferred) // 1000,
                "total": (finished - came) // 1000,
            },
            "dropped": dropped,
            "withheld": withheld,
            "historical": False,
        }
        self._newest = fields
        updates = self._reporter.update(fields, tracked, came, self._settings)
        return FrameResult(fields, reading.best, updates, stages, tracked.best)

    def end(self) -> tuple[EventMessage, ...]:
        """End all objects that are followed, with the newest frame: no other one comes. Returns their events."""
        return () if self._newest is None else self._reporter.events(self._newest, self._tracker.end())

    def _apply_wanted(self) -> None:
        """Apply a new model or new settings; the state and the recent frames it is based on stay."""
        loaded, settings = self._wanted_loaded, self._wanted_settings
        if loaded is self._loaded and settings is self._settings:
            return
        if loaded is not self._loaded or settings.tiles != self._settings.tiles:
            self._shape = ()
        self._loaded, self._settings = loaded, settings
        self._reader = reader_of(loaded.model, settings)
        before, self._tracker = self._tracker, tracker_of(loaded.model, self._object_ids, self._tracker)
        if self._tracker is not before:
            self._ended = before.end()
        self._model_identity = _fields_of(loaded.identity)

    def _input_for(self, shape: tuple[int, ...]) -> FrameInput:
        """What takes frames of this shape; another size or other tiles make a new one and release the old one."""
        if shape != self._shape:
            loaded = self._loaded
            self._picture = picture_of(loaded.model, shape, self._settings.tiles)
            self._input = loaded.open_frames(shape, self._picture.tiles)
            self._shape = shape
        return self._input


class Begun(NamedTuple):
    """A frame that is about to run: its model, what takes its pixels, when it was taken, and the clock that says it."""

    captured: CapturedFrame
    loaded: LoadedModel
    input: FrameInput
    taken: int
    now: Now


class Ran(NamedTuple):
    """A frame that has been run, its outputs, and when all inputs of the run were ready and when it ended, in ns."""

    begun: Begun
    outputs: Outputs
    prepared: int
    inferred: int


def run_together(frames: Sequence[Begun]) -> list[Ran]:
    """Run frames of one model as one batch, in their order. Raises FrameError, BackendError.

    Each is ready when all are, and ends when all do: that is what a frame's message waits for.
    """
    first = frames[0]
    run = first.loaded.run_frames([(each.input, each.captured.frame.pixels) for each in frames], first.now)
    inferred = first.now()
    return [Ran(each, outputs, run.prepared, inferred) for each, outputs in zip(frames, run.outputs, strict=True)]


def _fields_of(model: ModelIdentity) -> Fields:
    return {"name": model.name, "sha256": model.sha256}


def picture_of(model: Model, frame_shape: tuple[int, ...], tiles: TilesConfig) -> Picture:
    """The picture of a frame of this shape, [H, W, 3] or [H, W], cut into tiles of one size.

    Raises FrameError if it has fewer rows or columns than tiles.
    """
    height, width = frame_shape[:2]
    if height < tiles.rows or width < tiles.columns:
        raise FrameError(
            f"a frame of {width} x {height} pixels cannot be cut into {tiles.columns} x {tiles.rows} tiles"
        )
    parts = cut(Rectangle(0, 0, height, width), tiles.rows, tiles.columns, tiles.overlap)
    where = placement(model.preprocessing, model.input, (parts[0].height, parts[0].width))
    return Picture(height, width, parts, (where,) * len(parts))
