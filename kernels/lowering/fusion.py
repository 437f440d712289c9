"""Fuses a model's layers to steps, in an order in which every step reads tensors that are already written.

A layer is fused into the previous one only if the tensor between them has no other reader and is not an output of the
network: then the tensor is not needed and no cycle can arise. A shortcut is fused with a convolution of the same input
if the steps can still be ordered. All other tensors are written to memory.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from edgemeta.kernels.lowering.steps import ConvStep, LayerStep, PoolDenseStep, Step
from edgemeta.model.graph import INPUT, Model
from edgemeta.model.layers import Add, Conv, Dense, Layer, TensorType

_L = TypeVar("_L", bound=Layer)


@dataclass(frozen=True)
class Fusions:
    """Which layers a backend computes in one step.

    step_of: the step of a layer that is not fused with others, of the layer and the types of the tensors that it reads;
    a ConvStep takes the addition after it, a PoolDenseStep of a pool the dense layer. takes: whether a step takes the
    only reader of its output, too, as the last of `after`. shortcuts: whether a ConvStep takes one.
    """

    step_of: Callable[[Layer, Sequence[TensorType]], Step]
    takes: Callable[[ConvStep | LayerStep, Layer], bool]
    shortcuts: bool = False


def fuse(model: Model, fusions: Fusions) -> tuple[Step, ...]:
    """Steps of a proved model, whether or not there is a kernel for them."""
    known = replace(model, layers=tuple(layer.equivalent for layer in model.layers))
    ordered = _ordered(_Chains(known, fusions).steps())
    assert ordered is not None, "chains have no cycles"
    return tuple(_with_shortcuts(ordered) if fusions.shortcuts else ordered)


def is_plain(conv: Conv) -> bool:
    """One group, no dilation and weights of at most 16 bits."""
    weights, int16 = conv.weights.decode(), np.iinfo(np.int16)
    if conv.groups != 1 or conv.dilation != (1, 1):
        return False
    return int(weights.min()) >= int16.min and int(weights.max()) <= int16.max


class _Chains:
    """Convolutions with the additions after them, pools with the dense layers after them, and what a step takes."""

    def __init__(self, model: Model, fusions: Fusions) -> None:
        self._model = model
        self._fusions = fusions
        self._taken: set[str] = set()

    def steps(self) -> list[Step]:
        """One step for every layer that is not part of an earlier step."""
        steps: list[Step] = []
        for layer in self._model.layers:
            if layer.name not in self._taken:
                steps.append(self._step(layer))
        return steps

    def _step(self, layer: Layer) -> Step:
        step = self._alone(layer)
        after = self._model.after.get(layer.name)
        if isinstance(step, ConvStep) and isinstance(after, Add) and after.name not in self._taken:
            if self._takes(step.conv, after):
                residual = after.inputs[1] if after.inputs[0] == layer.name else after.inputs[0]
                step = replace(step, add=self._take(after), residual=residual)
        elif isinstance(step, PoolDenseStep):
            return replace(step, dense=self._take(after)) if step.pool and isinstance(after, Dense) else step
        while not isinstance(step, PoolDenseStep):
            next_ = self._model.after.get(step.output.name)
            if next_ is None or not self._fusions.takes(step, next_):
                break
            step = replace(step, after=(*step.after, self._take(next_)))
        return step

    def _alone(self, layer: Layer) -> Step:
        return self._fusions.step_of(layer, [self._model.types[name] for name in layer.sources])

    def _takes(self, conv: Conv, add: Add) -> bool:
        """Whether the addition is fused into this one of two convolutions: the larger kernel, at a tie the later."""
        rivals = [
            layer
            for name in add.inputs
            if isinstance(layer := self._model.by_name.get(name), Conv)
            and isinstance(self._alone(layer), ConvStep)
            and self._model.after.get(layer.name) is add
        ]
        places = {layer.name: place for place, layer in enumerate(self._model.layers)}
        return max(rivals, key=lambda each: (math.prod(each.weights.shape[1:3]), places[each.name])) is conv

    def _take(self, layer: _L) -> _L:
        self._taken.add(layer.name)
        return layer


def _with_shortcuts(ordered: list[Step]) -> list[Step]:
    """Fuse every shortcut with a convolution of the same input, if the steps can still be ordered."""
    for shortcut in [step for step in ordered if isinstance(step, ConvStep) and _is_shortcut(step)]:
        for step in ordered:
            if isinstance(step, ConvStep) and _fits_beside(shortcut.conv, step):
                joined = replace(step, shortcut=shortcut.conv)
                attempt = _ordered([joined if each is step else each for each in ordered if each is not shortcut])
                if attempt is not None:
                    ordered = attempt
                    break
    return ordered


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
