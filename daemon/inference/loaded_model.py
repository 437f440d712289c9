"""A model made ready to serve: verified, compiled, warmed up and tested, with its name for the messages."""

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from edgemeta.daemon.inference.model_file import ModelFile
from edgemeta.daemon.messages.records import ModelIdentity
from edgemeta.model.graph import Model
from edgemeta.plugins.api import Backend, BackendError, Batch, Logits, Session

WARM_UP_RUNS = 10

CLOSES_WITHIN = 1.0
"""Seconds that closing waits for a run in hand; one that takes longer closes the session itself when it returns."""


@dataclass(frozen=True)
class LoadTimes:
    """Nanoseconds that each step took until a network was ready to serve."""

    verify: int = 0
    compile: int = 0
    warm_up: int = 0
    self_test: int = 0


class LoadedModel:
    """A model, the backend that runs it by name, and its session. Whoever holds it closes it."""

    def __init__(self, model: Model, backend: str, session: Session, load_times: LoadTimes = LoadTimes()) -> None:
        self.model = model
        self.backend = backend
        self.load_times = load_times
        self.file: ModelFile | None = None
        """What the model was read from, kept until it was remembered (`swap/last_good.py`): it holds the whole file."""
        self._session = session
        self._running = threading.Lock()
        self._closing = False

    @cached_property
    def identity(self) -> ModelIdentity:
        """Name and digest, as messages carry them."""
        return ModelIdentity(name=self.model.name, sha256=self.model.digest)

    @property
    def description(self) -> str:
        """Name and the digest's beginning, for people."""
        return f"{self.model.name} ({self.model.digest[:12]})"

    def run(self, batch: Batch) -> Logits:
        """Do as `Session.run`, with logits that are the caller's own: worker and shadow run may ask the same network.

        While it lasts, `close` waits. Raises BackendError, also once closed.
        """
        with self._running:
            try:
                return self._session.run(batch).copy()
            finally:
                if self._closing:
                    self._session.close()

    def warm_up(self) -> None:
        """Let the backend touch all its memory, so that the first frame need not wait. Raises BackendError."""
        kind = self.model.input
        shape = (1, *kind.shape)
        batch = np.zeros(shape, np.int8) if kind.signed else np.zeros(shape, np.uint8)
        for _ in range(WARM_UP_RUNS):
            self.run(batch)

    def self_test(self) -> int:
        """Run the inputs that the model's file has answers for, and count them. Raises BackendError where one differs.

        One at a time, as frames come: a batch would keep its own memory.
        """
        test = self.model.self_test
        if test is None:
            return 0
        for number, (image, expected) in enumerate(zip(test.batch, test.expected, strict=True), 1):
            if not np.array_equal(self.run(image[np.newaxis])[0], expected):
                raise BackendError(
                    f"backend {self.backend} gives other logits for self-test input {number} of {self.description} "
                    "than its file says"
                )
        return len(test.batch)

    def close(self) -> None:
        """Give the session's memory back, after the run in hand."""
        self._closing = True
        if self._running.acquire(timeout=CLOSES_WITHIN):
            try:
                self._session.close()
            finally:
                self._running.release()


def load_model(model: Model, backend: Backend, options: Mapping[str, object], verify_ns: int) -> LoadedModel:
    """Compile a verified model, warm it up and test it; on failure nothing is left of it. Raises BackendError."""
    begun = time.monotonic_ns()
    session = backend.compile(model, options)
    compiled = time.monotonic_ns()
    network = LoadedModel(model, backend.name, session)
    try:
        network.warm_up()
        warm = time.monotonic_ns()
        network.self_test()
    except BackendError:
        network.close()
        raise
    network.load_times = LoadTimes(verify_ns, compiled - begun, warm - compiled, time.monotonic_ns() - warm)
    return network
