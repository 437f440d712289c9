"""Batch norms for convolutions that have none, as files of others have them folded into their weights.

They condition the training, keep mean and variance of each channel while weights become powers of two, and cost
nothing in the integer network, whose tables compute them.
"""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from edgemeta.model.graph import FloatModel
from edgemeta.model.layers import BatchNorm, Conv, FloatLayer
from edgemeta.model.tasks import Classification
from edgemeta.toolchain.torch_network import TorchNetwork

_EPS = 1e-5
_MOST = 16
"""Weights are multiplied by 2**-16 .. 2**16."""


def without_norm(model: FloatModel) -> frozenset[str]:
    """Convolutions that no batch norm reads, but those of logits, which are compared, and so have one step."""
    norms = {layer.input for layer in model.layers if isinstance(layer, BatchNorm)}
    logits = model.outputs if isinstance(model.task, Classification) else ()
    return frozenset(layer.name for layer in model.layers if isinstance(layer, Conv)).difference(norms, logits)


def with_norms(model: FloatModel, inputs: Iterable[Tensor]) -> FloatModel:
    """The network with a batch norm behind each convolution of `without_norm` that a layer reads; it gives the same.

    The weights of each channel are multiplied by the power of two that brings their root of the sum of squares nearest
    to 1, whatever the numbers that the layer reads: one learning rate then fits all layers.
    inputs: batches [B, C, H, W] of the network's own input, for mean and variance of each channel.
    """
    names = [name for name in sorted(without_norm(model)) if name not in model.outputs]
    moments = _moments(TorchNetwork(model).eval(), names, inputs)
    layers: list[FloatLayer] = []
    renamed: dict[str, str] = {}
    for layer in model.layers:
        layer = layer.renamed(layer.name, [renamed.get(name, name) for name in layer.sources])
        if layer.name not in moments:
            layers.append(layer)
            continue
        assert isinstance(layer, Conv)
        mean, variance = (each.numpy().astype(np.float32) for each in moments[layer.name])
        size = np.sqrt(np.square(layer.real_weights.astype(np.float64)).sum((1, 2, 3)))
        factor = np.exp2(-np.rint(np.log2(size.clip(2.0**-_MOST, 2.0**_MOST)))).astype(np.float32)
        bias = None if layer.bias is None else layer.bias * factor
        layers.append(replace(layer, weights=layer.real_weights * factor[:, None, None, None], bias=bias))
        renamed[layer.name] = f"{layer.name}.norm"
        scaled = variance * np.square(factor)
        gamma = np.sqrt(scaled + np.float32(_EPS)) / factor
        layers.append(BatchNorm(renamed[layer.name], layer.name, gamma, mean, mean * factor, scaled, _EPS))
    return replace(model, layers=tuple(layers))


def _moments(network: TorchNetwork, names: list[str], inputs: Iterable[Tensor]) -> dict[str, tuple[Tensor, Tensor]]:
    """Mean and variance of each channel of these tensors, float64 [C]."""
    sums = {name: torch.zeros(3, 1, dtype=torch.float64) for name in names}
    with torch.no_grad():
        for x in inputs:
            for name, value in zip(names, network.values(x, names), strict=True):
                flat = value.transpose(0, 1).flatten(1).double()
                count = torch.full((len(flat),), flat.shape[1], dtype=torch.float64)
                sums[name] = sums[name] + torch.stack([flat.sum(1), flat.square().sum(1), count])
    means = {name: (each[0] / each[2], each[1] / each[2]) for name, each in sums.items()}
    return {name: (mean, (square - mean.square()).clamp(min=0)) for name, (mean, square) in means.items()}
