"""First weights of a detector's training: those of one that was trained here before, in float or in integers."""

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from edgemeta.model.file import load
from edgemeta.model.float_file import is_float_model, load_float_model
from edgemeta.model.graph import FloatModel, Model
from edgemeta.model.layers import Weighted
from edgemeta.model.zoo import find
from edgemeta.toolchain.data.boxes.pictures import ReadPictures
from edgemeta.toolchain.torch_network import TorchNetwork, load_state, load_weights
from edgemeta.toolchain.train.batches import network_input
from edgemeta.toolchain.train.boxes.views import FILL

_SEEN = 64
"""Pictures whose sums say what the batch norms of a network of integers are."""


def read_start(name: str) -> FloatModel | Model:
    """A float or an integer model: a file or a shipped name. Raises ModelError."""
    path = find(name)
    return load_float_model(path) if is_float_model(path) else load(path)


def load_start(network: TorchNetwork, name: str, training: ReadPictures) -> None:
    """Set the network's weights to those of a model that `read_start` reads; labels that differ begin anew.

    Raises ModelError.
    """
    own = tuple(output for output in network.outputs if output.startswith("classes"))
    model = read_start(name)
    if isinstance(model, FloatModel):
        load_weights(network, model, name, own)
        return
    load_state(network, in_float(model, network), name, own)
    seen = replace(training, pictures=training.pictures[:_SEEN]).letterboxed(network.input_size, FILL)
    _normalize(network, np.ascontiguousarray(seen.x.transpose(0, 3, 1, 2)))


def in_float(model: Model, network: TorchNetwork) -> dict[str, Tensor]:
    """A state of the network with the weights of an integer model that was made of such a one; batch norms only add.

    Filters are [O, I, KH, KW]. A weight is `scale * integer`, a bias the integer times the scales of input and weights:
    what the integers stand for (docs/integer-semantics.md). What the model lacks is left out.
    """
    state: dict[str, Tensor] = {}
    weighted = {layer.name: layer for layer in model.layers if isinstance(layer, Weighted)}
    for layer in network.layers:
        key = network.module_names[layer.name]
        module = network.get_submodule(key)
        norms = isinstance(module, nn.BatchNorm2d)
        found = weighted.get(layer.sources[0] if norms else layer.name)
        if found is None:
            continue
        weights, bias = _real(found, model)
        if isinstance(module, nn.BatchNorm2d):
            ones, zeros = torch.ones_like(bias), torch.zeros_like(bias)
            state |= {f"{key}.weight": ones, f"{key}.bias": bias, f"{key}.num_batches_tracked": torch.tensor(0)}
            state |= {f"{key}.running_mean": zeros, f"{key}.running_var": ones - module.eps}
        else:
            state |= {f"{key}.weight": weights.permute(0, 3, 1, 2), f"{key}.bias": bias}
    return state


def _real(layer: Weighted, model: Model) -> tuple[Tensor, Tensor]:
    """Weights [O, KH, KW, I] and bias [O] in real numbers, float32."""
    integers = layer.weights.decode()
    step = np.broadcast_to(layer.weights.scale, len(integers))
    bias = np.zeros_like(step) if layer.bias is None else layer.bias * step * model.types[layer.sources[0]].scale
    weights = integers * step.reshape(-1, *(1,) * (integers.ndim - 1))
    return torch.from_numpy(weights).float(), torch.from_numpy(bias).float()


def _normalize(network: TorchNetwork, pixels: NDArray[np.uint8]) -> None:
    """Give the batch norms mean m and variance v of their inputs, and gamma sqrt(v + eps), beta b + m instead of 1, b.

    What the network computes stays; in training, where m and v are those of the batch, it nearly does, too.
    """
    seen: dict[nn.BatchNorm2d, list[tuple[Tensor, Tensor]]] = {}

    def watch(norm: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        assert isinstance(norm, nn.BatchNorm2d)
        x = inputs[0].double()
        seen.setdefault(norm, []).append((x.mean((0, 2, 3)), x.square().mean((0, 2, 3))))

    hooks = [each.register_forward_pre_hook(watch) for each in network.modules() if isinstance(each, nn.BatchNorm2d)]
    network.eval()
    with torch.no_grad():
        for picture in pixels:
            network(network_input(picture[np.newaxis]))
        for hook in hooks:
            hook.remove()
        for norm, moments in seen.items():
            mean, square = (torch.stack(each).mean(0) for each in zip(*moments, strict=True))
            variance = (square - mean.square()).clamp_min(0)
            norm.weight.copy_((variance + norm.eps).sqrt())
            norm.bias.add_(mean)
            assert norm.running_mean is not None
            assert norm.running_var is not None
            norm.running_mean.copy_(mean)
            norm.running_var.copy_(variance)
