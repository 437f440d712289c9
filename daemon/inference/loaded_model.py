"""A loaded model: verified, compiled by a backend, warmed up and tested."""

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from edgemeta.daemon.inference.model_file import ModelFile
from edgemeta.daemon.messages.records import ModelIdentity
from edgemeta.model.graph import Model
from edgemeta.model.self_test import flat
from edgemeta.model.tasks import TaskName, task_name
from edgemeta.plugins.api import Backend, BackendError, Batch, Fallback, Outputs, Session
from edgemeta.plugins.compile import compile_model

WARM_UP_RUNS = 10

CLOSES_WITHIN = 1.0
"""Seconds that closing waits for a run in progress; a longer run closes the session itself when it returns."""


@dataclass(frozen=True)
class LoadTimes:
    """Nanoseconds that each step of loading took."""

    verify: int = 0
    compile: int = 0
    warm_up: int = 0
    self_test: int = 0


class LoadedModel:
    """A model, the name of the backend that runs it, and its session. The owner closes it."""

    def __init__(self, model: Model, backend: str, session: Session, load_times: LoadTimes = LoadTimes()) -> None:
        self.model = model
        self.backend = backend
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

    def close(self) -> None:
        """Release the session, after the run in progress."""
        self._closing = True
        if self._running.acquire(timeout=CLOSES_WITHIN):
            try:
                self._session.close()
            finally:
                self._running.release()


def load_model(
    model: Model, backend: Backend, options: Mapping[str, object], fallback: Fallback, verify_ns: int
) -> LoadedModel:
    """Compile a verified model, warm it up and run its self-test. Raises BackendError, and then releases everything."""
    started = time.monotonic_ns()
    session = compile_model(model, backend, options, fallback)
    compiled = time.monotonic_ns()
    loaded = LoadedModel(model, backend.name, session)
    try:
        loaded.warm_up()
        warm = time.monotonic_ns()
        loaded.self_test()
    except BackendError:
        loaded.close()
        raise
    loaded.load_times = LoadTimes(verify_ns, compiled - started, warm - compiled, time.monotonic_ns() - warm)
    return loaded
