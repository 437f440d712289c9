"""Fuses a model's layers to steps, in an order in which every step reads tensors that are already written.

A layer is fused into the previous one only if the tensor between them has no other reader and is not an output of the
network: then the tensor is not needed and no cycle can arise. A shortcut is fused with a convolution of the same input
if the steps can still be ordered. All other tensors are written to memory.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from edgemeta.kernels.lowering.steps import ConvStep, LayerStep, PoolDenseStep, Step
from edgemeta.model.graph import INPUT, Model
from edgemeta.model.layers import Add, AveragePool, Clamp, Conv, Dense, Layer, TensorType

_L = TypeVar("_L", bound=Layer)


def step_of(layer: Layer, inputs: Sequence[TensorType]) -> Step:
    """The step of a layer that is not fused with others; inputs: types of the tensors that it reads."""
    match layer:
        case Conv() if _is_plain(layer):
            return ConvStep(layer)
        case AveragePool() if layer.kernel == inputs[0].shape[:2] and not any(layer.padding):
            return PoolDenseStep(layer, None)
        case Dense():
            return PoolDenseStep(None, layer)
        case _:
            return LayerStep(layer)


def fuse(model: Model) -> tuple[Step, ...]:
    """Steps of a proved model, whether or not there is a kernel for them."""
    return _with_shortcuts(_Chains(model).steps())


class _Chains:
    """Convolutions with the additions and clamps after them, pools with the dense layers after them."""

    def __init__(self, model: Model) -> None:
        self._layers = model.layers
        self._types = model.types
        self._by_name = model.by_name
        self._readers = Counter(name for layer in model.layers for name in layer.sources)
        self._readers.update(model.outputs)
        self._after = {name: layer for layer in model.layers for name in layer.sources}
        self._taken: set[str] = set()

    def steps(self) -> list[Step]:
        """One step for every layer that is not part of an earlier step."""
        steps: list[Step] = []
        for layer in self._layers:
            if layer.name not in self._taken:
                steps.append(self._step(layer))
        return steps

    def _step(self, layer: Layer) -> Step:
        match step_of(layer, [self._types[name] for name in layer.sources]):
            case ConvStep(conv):
                return self._conv(conv)
            case PoolDenseStep(AveragePool() as pool):
                after = self._only_reader(pool)
                return PoolDenseStep(pool, self._take(after) if isinstance(after, Dense) else None)
            case alone:
                return alone

    def _conv(self, conv: Conv) -> ConvStep:
        last: Layer = conv
        add, residual = None, None
        after = self._only_reader(conv)
        if isinstance(after, Add) and after.name not in self._taken and self._takes(conv, after):
            last, add = after, self._take(after)
            residual = after.inputs[1] if after.inputs[0] == conv.name else after.inputs[0]
        clamps: list[Clamp] = []
        while isinstance(clamp := self._only_reader(last), Clamp):
            clamps.append(self._take(clamp))
            last = clamp
        return ConvStep(conv, add, residual, tuple(clamps))

    def _takes(self, conv: Conv, add: Add) -> bool:
        """Whether the addition is fused into this one of two convolutions: the larger kernel, at a tie the later."""
        rivals = [
            layer
            for name in add.inputs
            if isinstance(layer := self._by_name.get(name), Conv)
            and _is_plain(layer)
            and self._only_reader(layer) is add
        ]
        places = {layer.name: place for place, layer in enumerate(self._layers)}
        return max(rivals, key=lambda each: (math.prod(each.weights.shape[1:3]), places[each.name])) is conv

    def _only_reader(self, layer: Layer) -> Layer | None:
        return self._after.get(layer.name) if self._readers[layer.name] == 1 else None

    def _take(self, layer: _L) -> _L:
        self._taken.add(layer.name)
        return layer


def _is_plain(conv: Conv) -> bool:
    """One group, no dilation and weights of at most 16 bits: the condition for a ConvStep."""
    weights, int16 = conv.weights.decode(), np.iinfo(np.int16)
    if conv.groups != 1 or conv.dilation != (1, 1):
        return False
    return int(weights.min()) >= int16.min and int(weights.max()) <= int16.max


def _with_shortcuts(steps: Sequence[Step]) -> tuple[Step, ...]:
    """Fuse every shortcut with a convolution of the same input, if the steps can still be ordered."""
    ordered = _ordered(steps)
    assert ordered is not None, "chains have no cycles"
    for shortcut in [step for step in ordered if isinstance(step, ConvStep) and _is_shortcut(step)]:
        for step in ordered:
            if isinstance(step, ConvStep) and _fits_beside(shortcut.conv, step):
                joined = replace(step, shortcut=shortcut.conv)
                attempt = _ordered([joined if each is step else each for each in ordered if each is not shortcut])
                if attempt is not None:
                    ordered = attempt
                    break
    return tuple(ordered)


def _is_shortcut(step: ConvStep) -> bool:
    conv = step.conv
    is_pointwise = conv.weights.shape[1:3] == (1, 1) and not any(conv.padding)
    return is_pointwise and conv.requantize is not None and len(step.layers) == 1


def _fits_beside(shortcut: Conv, step: ConvStep) -> bool:
    """Same input, stride and output size. A 3x3 of stride 1 stays alone: Winograd saves more than a launch costs."""
    conv = step.conv
    return (
        conv is not shortcut
        and step.shortcut is None
        and (conv.input, conv.stride) == (shortcut.input, shortcut.stride)
        and conv.output.shape[:2] == shortcut.output.shape[:2]
        and conv.requantize is not None
        and conv.weights.shape[1:3] != (1, 1)
        and (conv.weights.shape[1:3], conv.stride) != ((3, 3), (1, 1))
    )


def _ordered(steps: Sequence[Step]) -> list[Step] | None:
    """The steps in an order where each reads only written tensors, otherwise as given; None if they form a cycle."""
    written = {INPUT}
    waiting, ordered = list(steps), []
    while waiting:
        ready = next((step for step in waiting if written.issuperset(step.reads)), None)
        if ready is None:
            return None
        waiting.remove(ready)
        ordered.append(ready)
        written.update(ready.writes)
    return ordered
