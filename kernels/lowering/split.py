"""Cuts a model into parts that a backend supports and parts that run on another one.

A cut lies between two layers, in execution order, where exactly one tensor is still to be read: so every part is a
model of its own, with one input. Of all parts that hold an unsupported layer each is as short as such cuts allow, and
neighbours that run on the same backend are one part. Supported layers without a convolution or a dense layer between
two cuts are not worth a change of backend, so they stay with their neighbours.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from edgemeta.model.graph import INPUT, Model
from edgemeta.model.layers import Layer, Weighted


@dataclass(frozen=True, eq=False)
class Part:
    """Consecutive layers of a model, all on one backend.

    model: these layers as a model whose input is `source`, a tensor of the whole model; its outputs are those of the
    whole model and the sources of later parts, by their names. Its task is the whole model's, and means nothing here.
    refusals: reason by layer why the backend cannot run it; empty for a part that it runs.
    """

    model: Model
    source: str
    refusals: Mapping[str, str]

    @property
    def is_supported(self) -> bool:
        """Whether the backend runs this part."""
        return not self.refusals

    @property
    def span(self) -> str:
        """Its first and last layer, for people."""
        return _span(self.model.layers)


@dataclass(frozen=True)
class _Run:
    """Layers begin .. end - 1, which read the tensor `source` of what is before them."""

    begin: int
    end: int
    source: str


def split(model: Model, refusals: Mapping[str, str]) -> tuple[Part, ...]:
    """Parts of a proved model in execution order; one part, the model itself, if all runs on the same backend.

    refusals: reason by name for every layer that the backend cannot run. Layers that nothing needs may be left out.
    """
    runs = _joined(model, refusals, _blocks(model))
    if len(runs) == 1:
        return (Part(model, INPUT, refusals),)
    sources = {run.source for run in runs}
    parts = (_part(model, run, sources, refusals) for run in runs)
    return tuple(part for part in parts if part.model.outputs)


def _blocks(model: Model) -> list[_Run]:
    """The shortest runs: between all places where exactly one tensor is still to be read."""
    last_read = {name: place for place, layer in enumerate(model.layers) for name in layer.sources}
    cuts = [(0, INPUT)]
    alive = {INPUT}
    for place, layer in enumerate(model.layers):
        alive = {name for name in alive | {layer.name} if last_read.get(name, -1) > place}
        if len(alive) == 1:
            cuts.append((place + 1, next(iter(alive))))
    ends = [place for place, _ in cuts[1:]] + [len(model.layers)]
    return [_Run(begin, end, source) for (begin, source), end in zip(cuts, ends, strict=True)]


def _joined(model: Model, refusals: Mapping[str, str], blocks: list[_Run]) -> list[_Run]:
    """Neighbours on the same backend as one run, then those not worth a change of backend with their neighbours."""

    def is_supported(run: _Run) -> bool:
        return not any(layer.name in refusals for layer in model.layers[run.begin : run.end])

    def is_worth_it(run: _Run) -> bool:
        has_products = any(isinstance(layer, Weighted) for layer in model.layers[run.begin : run.end])
        return is_supported(run) and has_products

    joined = [_one(group) for _, group in groupby(blocks, is_supported)]
    return [_one(group) for _, group in groupby(joined, is_worth_it)] if refusals else joined


def _one(runs: Iterator[_Run]) -> _Run:
    first, *others = runs
    return replace(first, end=others[-1].end) if others else first


def _part(model: Model, run: _Run, sources: set[str], refusals: Mapping[str, str]) -> Part:
    types = model.types
    layers = model.layers[run.begin : run.end]
    part = replace(
        model,
        name=f"{model.name} {_span(layers)}",
        input=types[run.source],
        layers=tuple(_reading_input(layer, run.source) for layer in layers),
        outputs=tuple(layer.name for layer in layers if layer.name in sources or layer.name in model.outputs),
        self_test=None,
        digest=_digest(model, run),
    )
    return Part(part, run.source, {layer.name: refusals[layer.name] for layer in layers if layer.name in refusals})


def _span(layers: Sequence[Layer]) -> str:
    first, last = layers[0].name, layers[-1].name
    return first if first == last else f"{first}..{last}"


def _reading_input(layer: Layer, source: str) -> Layer:
    """The layer with another name for one of the tensors that it reads."""
    return layer.renamed(layer.name, [INPUT if name == source else name for name in layer.sources])


def _digest(model: Model, run: _Run) -> str:
    """What identifies the part of a stored model, for a backend that keeps measurements."""
    if not model.digest:
        return ""
    return hashlib.sha256(f"{model.digest} {run.begin} {run.end}".encode()).hexdigest()
