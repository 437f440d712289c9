"""The contract between the service and a backend."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.errors import EdgemetaError
from edgemeta.model.graph import Model

Batch: TypeAlias = NDArray[np.int8] | NDArray[np.uint8]
"""Preprocessed images [N, H, W, C], C-contiguous, of the model input's dtype."""

Logits: TypeAlias = NDArray[np.int8] | NDArray[np.uint8] | NDArray[np.int32]
"""Output integers [N, labels]."""


class BackendError(EdgemetaError):
    """A backend that is unknown, cannot run here, refuses an option or failed, with the reason in one sentence."""


class OptionError(BackendError):
    """An option that the backend does not have, or a value that the option cannot have."""


class SessionLostError(BackendError):
    """A session that failed and will never run again, as after a fault of the GPU: only a new one can help."""


@dataclass(frozen=True)
class Probe:
    """Whether a backend can run on this machine: `reason` says in words why not, or with what it would run.

    `score` ranks the available ones for `auto`, greater is faster; 0 where it is not available.
    """

    available: bool
    reason: str
    score: int = 0


class Session(Protocol):
    """One model made ready to run. Used by one thread at a time."""

    def run(self, batch: Batch) -> Logits:
        """Logits of a batch, N >= 1. The array is the session's own and holds until the next call.

        Batch 1 is the hot path: after the first call of a batch size nothing is allocated. Raises BackendError where
        this batch failed and the next one may not, SessionLostError where none will run any more.
        """
        ...

    def close(self) -> None:
        """Give all memory back; a second call does nothing. Running a closed session raises BackendError."""
        ...


class Backend(Protocol):
    """One way to run models. `name` is what the config and the command line call it."""

    name: str

    def probe(self) -> Probe:
        """Look at the machine; quick, without side effects, never raises."""
        ...

    def compile(self, model: Model, options: Mapping[str, object]) -> Session:
        """Make a session for a proved model: one from `model.file`, or one that `model.prove.prove` accepted.

        The proof is not repeated here: kernels rely on it and check no index and no overflow. Raises OptionError for
        an unknown option or a wrong value, BackendError for a model that this backend cannot run.
        """
        ...
