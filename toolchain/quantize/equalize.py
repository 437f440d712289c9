"""Equalization: the same float network with channels of similar range, so that one scale per tensor fits all of them.

ReLU, addition, pooling and upsampling commute with a positive factor per channel: if every layer that computes a tensor
divides channel c by s[c], and every layer that reads it multiplies its weights for that channel by s[c], the network is
unchanged (Nagel, van Baalen, Blankevoort and Welling, 2019). Tensors connected by such layers share their factors. What
activations gain in precision, the weights of the next layer may lose, so the caller measures the best strength.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.graph import INPUT, FloatModel
from edgemeta.model.layers import (
    BatchNorm,
    Conv,
    FloatLayer,
    Weighted,
)

EQUALIZATIONS = (0.5, 1.0)
"""Strengths that scheme `auto` tries."""
_LEAST = 1 / 16
"""Least factor: a channel is enlarged by at most sixteen."""

Factors = NDArray[np.float64]


def equalized(model: FloatModel, reach: Mapping[str, Factors], strength: float) -> FloatModel:
    """The network with s[c] = (range of channel c / greatest range) ** strength in every free group of tensors.

    reach: greatest magnitude of every channel [C] of the tensors of the integer network. strength: 0 (no change) to 1
    (all channels have the greatest range). The input, the outputs, and tensors at a ReLU6, a concatenation, a product,
    a slice or another function are not changed.
    """
    group = _groups(model)
    factors: dict[str, Factors] = {}
    for root in _free(model, group, reach):
        members = [found for name, found in reach.items() if group[name] == root]
        shape = np.max([m / max(float(m.max()), 1e-30) for m in members], axis=0)
        factors[root] = np.maximum(shape / max(float(shape.max()), 1e-30), _LEAST) ** strength
    by_tensor = {name: factors[root] for name, root in group.items() if root in factors}
    return replace(model, layers=tuple(_scaled(x, by_tensor) for x in model.layers))


def can_equalize(model: FloatModel, tensors: Iterable[str]) -> bool:
    """Whether any of these tensors may change its scale."""
    return bool(_free(model, _groups(model), tensors))


def _free(model: FloatModel, group: Mapping[str, str], tensors: Iterable[str]) -> set[str]:
    """The groups that may change their scale."""
    return {group[name] for name in tensors} - {group[name] for name in _fixed(model)}


def _groups(model: FloatModel) -> Mapping[str, str]:
    """Tensor -> name of its group; tensors that must share their factors are in the same group."""
    parent = {INPUT: INPUT} | {x.name: x.name for x in model.layers}

    def root(name: str) -> str:
        while parent[name] != name:
            name = parent[name]
        return name

    for layer in model.layers:
        if layer.commutes:
            for name in layer.sources:
                parent[root(name)] = root(layer.name)
    return {name: root(name) for name in parent}


def _fixed(model: FloatModel) -> set[str]:
    """Tensors that must keep their scale, because no neighbouring layer can absorb the factor."""
    fixed = {INPUT, *model.outputs}
    for layer in model.layers:
        if isinstance(layer, BatchNorm):
            fixed.add(layer.input)
        elif not layer.commutes and not isinstance(layer, Weighted):
            fixed |= {layer.name, *layer.sources}
    return fixed


def _scaled(layer: FloatLayer, factors: Mapping[str, Factors]) -> FloatLayer:
    """The layer with its output divided by the factors of its tensor, and its weights adapted to the scaled input."""
    out = factors.get(layer.name)
    if isinstance(layer, BatchNorm) and out is not None:
        return replace(layer, gamma=_float32(layer.gamma / out), beta=_float32(layer.beta / out))
    if not isinstance(layer, Weighted):
        return layer
    weight = layer.real_weights.astype(np.float64)
    source = factors.get(layer.input)
    if source is not None and isinstance(layer, Conv):
        share, per_group = len(weight) // layer.groups, weight.shape[3]
        for g in range(layer.groups):
            weight[g * share : (g + 1) * share] *= source[g * per_group : (g + 1) * per_group]
    elif source is not None:
        weight *= np.tile(source, weight.shape[1] // len(source))
    bias = layer.bias
    if out is not None:
        weight /= out.reshape(-1, *[1] * (weight.ndim - 1))
        bias = None if bias is None else _float32(bias / out)
    return replace(layer, weights=_float32(weight), bias=bias)


def _float32(values: NDArray[np.float64]) -> NDArray[np.float32]:
    return values.astype(np.float32)
