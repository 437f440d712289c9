"""A loaded model: verified, compiled by a backend, warmed up and tested."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from edgemeta.daemon.inference.model_file import ModelFile
from edgemeta.daemon.messages.records import ModelIdentity
from edgemeta.model.graph import Model
from edgemeta.model.preprocess import Rectangle, preprocess
from edgemeta.model.self_test import flat
from edgemeta.model.tasks import TaskName, task_name
from edgemeta.plugins.api import Backend, BackendError, Batch, Fallback, Outputs, Session
from edgemeta.plugins.compile import compile_model
from edgemeta.plugins.frames import FrameInput, Place, frame_runner

WARM_UP_RUNS = 10

_TEST_FRAMES = ((97, 131, 3), (61, 40))
"""Shapes of the frames of a preprocessing test."""

CLOSES_WITHIN = 1.0
"""Seconds that closing waits for a run in progress; a longer run closes the session itself when it returns."""


@dataclass(frozen=True)
class LoadTimes:
    """Nanoseconds that each step of loading took."""

    verify: int = 0
    compile: int = 0
    warm_up: int = 0
    self_test: int = 0


class FrameRun(NamedTuple):
    """A run of frames: the outputs of each [images, H, W, C], and the nanoseconds at which all inputs were ready."""

    outputs: tuple[Outputs, ...]
    prepared: int


class LoadedModel:
    """A model, the name of the backend that runs it, and its session. The owner closes it.

    place: where its frames are preprocessed; raises PlaceError if the session cannot do it there.
    """

    def __init__(
        self,
        model: Model,
        backend: str,
        session: Session,
        load_times: LoadTimes = LoadTimes(),
        place: Place = "cpu",
    ) -> None:
        self._frames = frame_runner(model, backend, session, place)
        self.model = model
        self.backend = backend
        self.place = place
        self.load_times = load_times
        self.file: ModelFile | None = None
        """The file with all its bytes, kept until its copy is written (`swap/last_good.py`)."""
        self._session = session
        self._running = threading.Lock()
        self._closing = False

    @cached_property
    def identity(self) -> ModelIdentity:
        """Name and digest, as messages carry them."""
        return ModelIdentity(name=self.model.name, sha256=self.model.digest)

    @property
    def task(self) -> TaskName:
        """The model's task."""
        return task_name(self.model.task)

    @property
    def description(self) -> str:
        """Name and the first digits of the digest, for log lines."""
        return f"{self.model.name} ({self.model.digest[:12]})"

    def run(self, batch: Batch) -> Outputs:
        """Like `Session.run`, but returns copies: worker and shadow run may share a model.

        `close` waits for it. Raises BackendError, also after `close`.
        """
        with self._running:
            try:
                return tuple(output.copy() for output in self._session.run(batch))
            finally:
                if self._closing:
                    self._session.close()

    def open_frames(self, frame_shape: tuple[int, ...], regions: Sequence[Rectangle]) -> FrameInput:
        """As `FrameRunner.open`."""
        return self._frames.open(frame_shape, regions)

    def run_frames(
        self, frames: Sequence[tuple[FrameInput, NDArray[np.uint8]]], now: Callable[[], int] = time.monotonic_ns
    ) -> FrameRun:
        """Preprocess frames and run them together; each comes with what `open_frames` returned for its shape.

        Otherwise as `run`; raises FrameError for unusable pixels, too.
        """
        ends = list(accumulate((each.images for each, _ in frames), initial=0))
        with self._running:
            try:
                self._frames.prepare(frames)
                prepared = now()
                outputs = self._frames.run()
                parts = tuple([tuple([output[a:b].copy() for output in outputs]) for a, b in pairwise(ends)])
            finally:
                if self._closing:
                    self._session.close()
        return FrameRun(parts, prepared)

    def warm_up(self) -> None:
        """Run a few empty images, so that the first frame is not slower. Raises BackendError."""
        kind = self.model.input
        shape = (1, *kind.shape)
        batch = np.zeros(shape, np.int8) if kind.signed else np.zeros(shape, np.uint8)
        for _ in range(WARM_UP_RUNS):
            self.run(batch)

    def self_test(self) -> int:
        """Run the self-test of the model file; returns the number of inputs. Raises BackendError where outputs differ.

        One image at a time, as with frames: a larger batch would allocate its own memory.
        """
        test = self.model.self_test
        if test is None:
            return 0
        for number, (image, expected) in enumerate(zip(test.batch, test.expected, strict=True), 1):
            if not np.array_equal(flat(self.run(image[np.newaxis]))[0], expected):
                raise BackendError(
                    f"backend {self.backend} gives different outputs for self-test input {number} of "
                    f"{self.description} than its file says"
                )
        return len(test.batch)

    def preprocessing_test(self) -> None:
        """Run random frames, colour and gray, together; raises BackendError where the definition gives other outputs.

        For frames that are preprocessed on a device: the self-test of the file begins behind that.
        """
        rng = np.random.default_rng(0)
        frames = [rng.integers(0, 256, shape, np.uint8) for shape in _TEST_FRAMES]
        opened = [self.open_frames(frame.shape, [Rectangle(0, 0, *frame.shape[:2])]) for frame in frames]
        found = self.run_frames(list(zip(opened, frames, strict=True)))
        for frame, outputs in zip(frames, found.outputs, strict=True):
            image = preprocess(frame, self.model.input, self.model.preprocessing)
            if not np.array_equal(flat(outputs), flat(self.run(image[np.newaxis]))):
                raise BackendError(
                    f"backend {self.backend} preprocesses a frame of {frame.shape[1]} x {frame.shape[0]} pixels for "
                    f"{self.description} otherwise than defined"
                )

    def close(self) -> None:
        """Release the session, after the run in progress."""
        self._closing = True
        if self._running.acquire(timeout=CLOSES_WITHIN):
            try:
                self._session.close()
            finally:
                self._running.release()


def load_model(
    model: Model,
    backend: Backend,
    options: Mapping[str, object],
    fallback: Fallback,
    verify_ns: int,
    place: Place = "cpu",
) -> LoadedModel:
    """Compile a verified model, warm it up and run its self-test. Raises BackendError, and then releases everything.

    place: where its frames are preprocessed. Raises PlaceError if the backend cannot do it there.
    """
    started = time.monotonic_ns()
    session = compile_model(model, backend, options, fallback)
    compiled = time.monotonic_ns()
    try:
        loaded = LoadedModel(model, backend.name, session, place=place)
    except BaseException:
        session.close()
        raise
    try:
        loaded.warm_up()
        warm = time.monotonic_ns()
        loaded.self_test()
        if place == "device":
            loaded.preprocessing_test()
    except BaseException:
        loaded.close()
        raise
    loaded.load_times = LoadTimes(verify_ns, compiled - started, warm - compiled, time.monotonic_ns() - warm)
    return loaded
