"""Integer networks on the cpu backend, whose integers are the reference's: each session is compared with it first."""

from collections.abc import Iterable
from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgemeta.model import reference
from edgemeta.model.graph import INPUT, Model
from edgemeta.model.self_test import flat
from edgemeta.plugins.api import BackendError, Batch, Outputs, Session
from edgemeta.plugins.compile import compile_model
from edgemeta.plugins.registry import choose

BACKEND = "cpu"
COMPARED = 2
"""Pictures of each session that are compared with the reference."""


def integer_session(model: Model, compared: int = COMPARED, threads: int = 1) -> Session:
    """A session of the cpu backend with so many threads. Raises BackendError if it is not available.

    Its `run` raises BackendError, too, if the integers of one of the first `compared` pictures differ from the
    reference's: nothing can be measured with them.
    """
    return _Compared(model, compile_model(model, choose(BACKEND), {"threads": threads}), compared)


def require_self_test(model: Model) -> None:
    """Raise BackendError unless the cpu backend gives the outputs of the model's self-test."""
    assert model.self_test is not None
    with closing(integer_session(model, compared=0)) as session:
        found = flat(session.run(model.self_test.batch))
    _require_equal(model, "its self-test", found, model.self_test.expected)


class _Compared:
    def __init__(self, model: Model, session: Session, left: int) -> None:
        self._model = model
        self._session = session
        self._left = left

    def run(self, batch: Batch) -> Outputs:
        """As `Session.run`."""
        found = self._session.run(batch)
        some = batch[: self._left]
        if len(some):
            for name, integers, wanted in zip(
                self._model.outputs, found, reference.run(self._model, some), strict=True
            ):
                _require_equal(self._model, f"output {name!r} of a picture", integers[: len(some)], wanted)
            self._left -= len(some)
        return found

    def close(self) -> None:
        """As `Session.close`."""
        self._session.close()


def _require_equal(model: Model, what: str, found: NDArray[Any], expected: NDArray[Any]) -> None:
    different = int(np.count_nonzero(found != expected))
    if different:
        raise BackendError(
            f"backend {BACKEND} differs from the reference in {different} of {expected.size} integers of {what}, so "
            f"network {model.name!r} cannot be measured with it: please report this fault"
        )


def needed(model: Model, outputs: Iterable[str]) -> Model:
    """The part of a network that computes these tensors, which become its outputs."""
    names = tuple(outputs)
    wanted = set(names)
    layers = []
    for layer in reversed(model.layers):
        if layer.name in wanted:
            wanted |= set(layer.sources) - {INPUT}
            layers.append(layer)
    return replace(model, layers=tuple(reversed(layers)), outputs=names)
