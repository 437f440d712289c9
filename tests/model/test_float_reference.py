"""The float interpreter against PyTorch's own layers."""

from typing import Any

import numpy as np
import pytest

from edgemeta.model.float_reference import accuracy, all_tensors, logits, network_input
from edgemeta.model.graph import FloatModel
from edgemeta.model.layers import (
    Add,
    AveragePool,
    BatchNorm,
    Concat,
    Conv,
    Dense,
    FloatLayer,
    GlobalAverage,
    MaxPool,
    Relu,
)

torch = pytest.importorskip("torch", reason="torch is not installed: pip install edgemeta[train]")


def torch_layer(layer: FloatLayer, inputs: list[Any]) -> Any:
    """The same layer done by PyTorch on [N, C, H, W]."""
    functional = torch.nn.functional
    x = inputs[0]
    if isinstance(layer, Conv):
        top, left, bottom, right = layer.padding
        weight = torch.from_numpy(layer.weights).permute(0, 3, 1, 2)
        bias = None if layer.bias is None else torch.from_numpy(layer.bias)
        padded = functional.pad(x, (left, right, top, bottom))
        return functional.conv2d(padded, weight, bias, layer.stride, groups=layer.groups)
    if isinstance(layer, BatchNorm):
        parts = (torch.from_numpy(a) for a in (layer.mean, layer.variance, layer.gamma, layer.beta))
        return functional.batch_norm(x, *parts, eps=layer.eps)
    if isinstance(layer, Relu):
        return x.clamp(0, layer.ceiling)
    if isinstance(layer, Add):
        return inputs[0] + inputs[1]
    if isinstance(layer, MaxPool | AveragePool):
        pads = (layer.padding[1], layer.padding[3], layer.padding[0], layer.padding[2])
        is_max = isinstance(layer, MaxPool)
        value = float("-inf") if is_max else 0.0
        pool = functional.max_pool2d if is_max else functional.avg_pool2d
        return pool(functional.pad(x, pads, value=value), layer.kernel, layer.stride)
    if isinstance(layer, GlobalAverage):
        return x.mean((2, 3), keepdim=True)
    if isinstance(layer, Dense):
        flat = x.permute(0, 2, 3, 1).reshape(len(x), -1)
        bias = None if layer.bias is None else torch.from_numpy(layer.bias)
        return functional.linear(flat, torch.from_numpy(layer.weights), bias)[:, :, None, None]
    if isinstance(layer, Concat):
        return torch.cat(inputs, 1)
    return functional.interpolate(x, scale_factor=layer.factor, mode="nearest")


def test_every_tensor_equals_pytorch(every_layer: FloatModel, pixels: Any) -> None:
    mine = all_tensors(every_layer, network_input(every_layer, pixels))
    theirs = {"input": ((torch.from_numpy(pixels).float() - 128) / 128).permute(0, 3, 1, 2)}
    for layer in every_layer.layers:
        theirs[layer.name] = torch_layer(layer, [theirs[n] for n in layer.sources])
        wanted = theirs[layer.name].permute(0, 2, 3, 1).numpy()
        assert mine[layer.name].dtype == np.float32
        np.testing.assert_allclose(mine[layer.name], wanted, rtol=1e-4, atol=1e-5, err_msg=layer.name)


def test_results_do_not_depend_on_the_batch_size(every_layer: FloatModel, pixels: Any) -> None:
    whole = logits(every_layer, pixels)
    assert whole.shape == (20, 10)
    np.testing.assert_allclose(logits(every_layer, pixels, batch=3), whole, rtol=1e-5, atol=1e-6)


def test_accuracy(every_layer: FloatModel, pixels: Any) -> None:
    y = logits(every_layer, pixels).argmax(1).astype(np.uint8)
    y[:5] = (y[:5] + 1) % 10
    seen: list[tuple[int, int]] = []
    assert accuracy(every_layer, pixels, y, lambda done, total: seen.append((done, total))) == 0.75
    assert seen == [(20, 20)]
