"""Integer networks on the cpu backend, whose integers are the reference's."""

from collections.abc import Iterable
from dataclasses import replace

from edgemeta.model.graph import INPUT, Model
from edgemeta.model.layers import inputs_of
from edgemeta.plugins.api import Session
from edgemeta.plugins.registry import choose


def integer_session(model: Model) -> Session:
    """A session of the cpu backend. Raises BackendError if it is not available."""
    return choose("cpu").compile(model, {})


def needed(model: Model, outputs: Iterable[str]) -> Model:
    """The part of a network that computes these tensors, which become its outputs."""
    names = tuple(outputs)
    wanted = set(names)
    layers = []
    for layer in reversed(model.layers):
        if layer.name in wanted:
            wanted |= set(inputs_of(layer)) - {INPUT}
            layers.append(layer)
    return replace(model, layers=tuple(reversed(layers)), outputs=names)
