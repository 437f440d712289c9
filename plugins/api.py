"""The interface between the service and a backend."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.errors import EdgemetaError
from edgemeta.model.graph import Model
from edgemeta.model.layers import Layer, TensorType
from edgemeta.model.preprocess import Rectangle

Batch: TypeAlias = NDArray[np.int8] | NDArray[np.uint8]
"""Preprocessed images [N, H, W, C], C-contiguous, of the model input's dtype."""

Outputs: TypeAlias = tuple[NDArray[Any], ...]
"""One array [N, H, W, C] for each output of the model, in their order; int8, uint8 or int32 as its type says."""


Fallback: TypeAlias = Literal["cpu", "refuse"]
"""What happens to layers that a backend does not support: they run on `cpu`, or the model is refused."""


class BackendError(EdgemetaError):
    """A backend is unknown, not available, or failed; the text states the reason in one sentence."""


class OptionError(BackendError):
    """An unknown backend option, or an invalid value of one."""


class SessionLostError(BackendError):
    """A session failed permanently, as after a GPU error: only a new session can run."""


@dataclass(frozen=True)
class Probe:
    """Whether a backend can run on this machine.

    reason: why not, or what it would run on. score: rank for `auto`, greater is faster; 0 if not available.
    """

    available: bool
    reason: str
    score: int = 0


class Session(Protocol):
    """One compiled model. Used by one thread at a time."""

    def run(self, batch: Batch) -> Outputs:
        """The outputs of a batch, N >= 1. The session owns the arrays; they are valid until the next call.

        Batch 1 is the hot path: after the first call of a batch size nothing is allocated. Raises BackendError if this
        batch failed but the next may succeed, SessionLostError if the session cannot run any more.
        """
        ...

    def close(self) -> None:
        """Free all memory; a second call does nothing. Running a closed session raises BackendError."""
        ...


@runtime_checkable
class FrameSession(Protocol):
    """A session that preprocesses camera frames on its device, too; equal bit for bit to `model.preprocess`."""

    def open_frames(self, frame_shape: tuple[int, ...], regions: Sequence[Rectangle]) -> Any:
        """What `load_frames` takes with frames of one shape: an object with `images`, the number of regions.

        As `plugins.frames.FrameRunner.open`; any thread may call it.
        """
        ...

    def load_frames(self, frames: Sequence[tuple[Any, NDArray[np.uint8]]]) -> None:
        """Take frames, each with what `open_frames` returned for it; rows and columns may be strided.

        After the first call with frames of such shapes nothing is allocated. Raises FrameError for a frame of another
        shape or dtype, BackendError and SessionLostError as `Session.run`.
        """
        ...

    def run_frames(self) -> Outputs:
        """As `Session.run`, for the regions of the frames taken last, in their order."""
        ...


class Backend(Protocol):
    """One way to run models. name: its name in configs and on the command line."""

    name: str

    def probe(self) -> Probe:
        """Check the machine; quick, without side effects, never raises."""
        ...

    def supports(self, layer: Layer, inputs: Sequence[TensorType]) -> str | None:
        """None if it can run a layer of a proved model, otherwise the reason, such as "MaxPool is not supported".

        inputs: types of the tensors that the layer reads. The answer is quick and depends on these two only, not on
        the machine; `compile` may still refuse a model that is too large for a device. Unsupported layers run on
        another backend, or the model is refused (`plugins.compile`). A backend of another package may lack this
        method: then it is asked to run every layer.
        """
        ...

    def compile(self, model: Model, options: Mapping[str, object]) -> Session:
        """Make a session for a proved model: one from `model.file`, or one that `model.prove.prove` accepted.

        The proof is not repeated here: kernels rely on it and check no index and no overflow. A model may be a part of
        a larger one: its task then says nothing about its outputs. Raises OptionError for an unknown option or a wrong
        value, BackendError for a model that this backend cannot run.
        """
        ...
