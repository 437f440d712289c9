"""A model compiled by a backend: what answers a frame, with its name for the messages."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from edgemeta.daemon.messages import ModelIdentity
from edgemeta.model.graph import Model
from edgemeta.plugins.api import Session

WARM_UP_RUNS = 10


@dataclass(frozen=True)
class Network:
    """A model, the backend that runs it by name, and its session. Whoever holds it closes it."""

    model: Model
    backend: str
    session: Session

    @cached_property
    def identity(self) -> ModelIdentity:
        """Name and digest, as messages carry them."""
        return ModelIdentity(name=self.model.name, sha256=self.model.digest)

    def warm_up(self) -> None:
        """Let the backend touch all its memory, so that the first frame need not wait. Raises BackendError."""
        kind = self.model.input
        shape = (1, *kind.shape)
        batch = np.zeros(shape, np.int8) if kind.signed else np.zeros(shape, np.uint8)
        for _ in range(WARM_UP_RUNS):
            self.session.run(batch)

    def close(self) -> None:
        """Give the session's memory back."""
        self.session.close()
