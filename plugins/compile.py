"""Compiles a model on a backend; layers that it does not support run on another one, or the model is refused.

The other one is `cpu`; for `cpu` and `neon`, which run one library, it is `reference`, which has every layer.
"""

import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgemeta.kernels.lowering.split import Part, split
from edgemeta.model.graph import INPUT, Model
from edgemeta.plugins.api import Backend, BackendError, Batch, Fallback, Outputs, Session
from edgemeta.plugins.measure import Profiled
from edgemeta.plugins.registry import choose

_CPU_LIBRARY = ("cpu", "neon")
_MOST_NAMED = 4
_NANOSECONDS = 1000

_log = logging.getLogger(__name__)


class UnsupportedLayerError(BackendError):
    """The backend does not support a layer, and nothing else may run it."""


def refusals_of(model: Model, backend: Backend) -> dict[str, str]:
    """Reason by layer for every layer that the backend cannot run, in execution order."""
    types = model.types
    reasons = {layer.name: backend.supports(layer, [types[name] for name in layer.sources]) for layer in model.layers}
    return {name: reason for name, reason in reasons.items() if reason is not None}


def compile_model(model: Model, backend: Backend, options: Mapping[str, object], fallback: Fallback = "cpu") -> Session:
    """Make a session for a proved model, as `Backend.compile`.

    If the backend does not support all layers, `fallback` "cpu" runs the others on another one with its default
    options, and logs a warning that names them; "refuse" raises UnsupportedLayerError, which names the first.
    """
    refusals = refusals_of(model, backend)
    if not refusals:
        return backend.compile(model, options)
    if fallback == "refuse":
        name, reason = next(iter(refusals.items()))
        raise UnsupportedLayerError(f"backend {backend.name}: layer {name!r}: {reason}")
    parts = split(model, refusals)
    other = choose("reference" if backend.name in _CPU_LIBRARY else "cpu")
    _log.warning("%s", _description(model, backend, other, parts))
    with ExitStack() as opened:
        sessions = []
        for part in parts:
            made = backend.compile(part.model, options) if part.is_supported else compile_model(part.model, other, {})
            opened.callback(made.close)
            sessions.append(made)
        return SplitSession(model, parts, sessions, opened.pop_all())


class SplitSession:
    """The parts of a model, run one after the other; each reads a tensor that an earlier one has written.

    sessions: of each part. opened: closes them.
    """

    def __init__(self, model: Model, parts: Sequence[Part], sessions: Sequence[Session], opened: ExitStack) -> None:
        self._outputs = model.outputs
        self._parts = tuple(zip(parts, sessions, strict=True))
        self._opened = opened
        self._tensors: dict[str, NDArray[Any]] = {}

    def run(self, batch: Batch) -> Outputs:
        """As `Session.run`; errors are those of the part."""
        self._tensors[INPUT] = batch
        for part, session in self._parts:
            outputs = session.run(self._tensors[part.source])
            for name, output in zip(part.model.outputs, outputs, strict=True):
                self._tensors[name] = np.ascontiguousarray(output)  # the reference's may not be
        return tuple(self._tensors[name] for name in self._outputs)

    def profile(self, image: Batch) -> dict[str, float]:
        """Run a batch of one; microseconds of every step, in execution order. A part without steps is one."""
        self.run(image)
        steps: dict[str, float] = {}
        for part, session in self._parts:
            for name, microseconds in _profile(part, session, self._tensors[part.source]).items():
                steps[name] = steps.get(name, 0.0) + microseconds  # such as "host and copies", of every part
        return steps

    def close(self) -> None:
        """As `Session.close`."""
        self._tensors.clear()
        self._opened.close()


def _profile(part: Part, session: Session, batch: Batch) -> Mapping[str, float]:
    if isinstance(session, Profiled):
        return session.profile(batch)
    begin = time.perf_counter_ns()
    session.run(batch)
    return {part.span: (time.perf_counter_ns() - begin) / _NANOSECONDS}


def _description(model: Model, backend: Backend, other: Backend, parts: Sequence[Part]) -> str:
    """Which layers run on the other backend, why, and how often an image changes the backend."""
    others = [part for part in parts if not part.is_supported]
    count = sum(len(part.model.layers) for part in others)
    first: dict[str, str] = {}
    for part in others:
        for name, reason in part.refusals.items():
            first.setdefault(reason, name)
    reasons = [f"layer {name!r}: {reason}" for reason, name in first.items()]
    return (
        f"model {model.name}: {count} of {len(model.layers)} layers run on {other.name} "
        f"({_few([part.span for part in others], ', ')}), as backend {backend.name} does not support "
        f"{sum(len(part.refusals) for part in others)} of them ({_few(reasons, '; ')}); changes of backend for every "
        f"image: {len(parts) - 1}"
    )


def _few(texts: Sequence[str], separator: str) -> str:
    """The first of them, and how many there are beside."""
    more = [f"{len(texts) - _MOST_NAMED} more"] if len(texts) > _MOST_NAMED else []
    return separator.join([*texts[:_MOST_NAMED], *more])
