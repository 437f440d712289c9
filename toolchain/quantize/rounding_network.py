"""The last blocks of an integer network in PyTorch, as real numbers that are rounded where its integers are.

The gradient of a rounding goes straight through, and ends where a number is clipped. In the forward pass a result may
differ from the integer network's where a sum lies halfway between two steps; nothing but weights and biases is taken
from it.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from edgemeta.model.layers import TensorType
from edgemeta.toolchain.quantize.blocks import Block, with_numbers
from edgemeta.toolchain.quantize.channels import Grid
from edgemeta.toolchain.quantize.folded import Folded
from edgemeta.toolchain.quantize.lower import Lowering
from edgemeta.toolchain.quantize.weights import LayerWeights
from edgemeta.toolchain.torch_layers import Convolution, module_of

_BIAS_STEPS = 256
"""Of an output of accumulators: its biases are trained in this part of the greatest one."""


class RoundingNetwork(nn.Module):
    """The blocks of a lowering from number `first` on, to be trained; those before stay as they are.

    sources: names of the tensors that they read of those before. outputs: of the network's outputs, those they give.
    """

    def __init__(self, builder: Lowering[Folded], first: int) -> None:
        super().__init__()
        self._builder, self._blocks = builder, builder.blocks[first:]
        mine = {block.name for block in self._blocks}
        self.sources = tuple(dict.fromkeys(name for b in self._blocks for name in b.inputs if name not in mine))
        self.outputs = tuple(each.name for each in self._blocks if each.after in builder.model.outputs)
        self._layers = nn.ModuleList([_layer(builder, block) for block in self._blocks])

    def forward(self, integers: Mapping[str, NDArray[np.generic]]) -> tuple[Tensor, ...]:
        """The outputs [N, C, H, W] for integers of the sources [N, H, W, C]."""
        builder = self._builder
        values = {name: self._reals(name, integers[name]) for name in self.sources}
        for block, layer in zip(self._blocks, self._layers, strict=True):
            y = layer(*(values[name] for name in block.inputs))
            if block.relu is not None:
                ceiling = block.relu.ceiling
                y = functional.relu(y) if ceiling is None else functional.hardtanh(y, 0.0, ceiling)
            if block.name not in builder.raw:
                y = _rounded(y, builder.types[block.name], builder.grids.get(block.name))
            values[block.name] = y
        return tuple(values[name] for name in self.outputs)

    def write(self, weights: LayerWeights) -> None:
        """Set the weights and biases of its layers, and the scales that they were trained for."""
        with torch.no_grad():
            for block, layer in zip(self._blocks, self._layers, strict=True):
                if isinstance(layer, _RoundedLayer):
                    weight = _array(layer.rounded)
                    weight = weight.transpose(0, 2, 3, 1) if weight.ndim == 4 else weight
                    bias, scale = (_array(each).astype(np.float64) for each in (layer.real_bias, layer.scale))
                    weights.train(block.name, np.ascontiguousarray(weight), bias, scale)

    def _reals(self, name: str, integers: NDArray[np.generic]) -> Tensor:
        kind = self._builder.types[name]
        grid = self._builder.grids.get(name) or Grid.of(kind)
        return torch.from_numpy(grid.reals(integers, kind)).permute(0, 3, 1, 2)


class _RoundedLayer(nn.Module):
    """A convolution or dense layer: weight in steps of `scale` [O], bias in `unit`s, [O] or [1].

    In these units one learning rate fits all layers. grid: of the input, if the weights hold its shares.
    """

    def __init__(self, layer: Any, scale: NDArray[np.float64], unit: NDArray[np.float64], grid: Grid | None) -> None:
        super().__init__()
        self._shares = None if grid is None else torch.from_numpy(grid.shares).reshape(1, -1, 1, 1)
        self._layer = [layer]  # a list keeps its own parameters out of the training
        self.scale, self._unit = _tensor(np.broadcast_to(scale, len(layer.weight))), _tensor(unit)
        self._columns = self.scale.reshape(-1, *[1] * (layer.weight.ndim - 1))
        self._weight = nn.Parameter(layer.weight.detach() / self._columns)
        self._bias = nn.Parameter(layer.bias.detach() / self._unit)

    @property
    def rounded(self) -> Tensor:
        """The real weights of the integers, in PyTorch's order."""
        zero = torch.zeros(len(self.scale), dtype=torch.int32)
        return torch.fake_quantize_per_channel_affine(self._weight * self._columns, self.scale, zero, 0, -127, 127)

    @property
    def real_bias(self) -> Tensor:
        """[O]."""
        return self._bias * self._unit

    def forward(self, x: Tensor) -> Tensor:
        """[N, C', H', W'] of x [N, C, H, W]."""
        layer, weight, bias = self._layer[0], self.rounded, self.real_bias
        x = x if self._shares is None else x / self._shares
        if isinstance(layer, nn.Linear):
            return functional.linear(x.permute(0, 2, 3, 1).flatten(1), weight, bias)[:, :, None, None]
        x = layer.padded(x) if isinstance(layer, Convolution) else x
        return functional.conv2d(x, weight, bias, layer.stride, layer.padding, layer.dilation, layer.groups)


def _layer(builder: Lowering[Folded], block: Block) -> nn.Module:
    """The module of a block's core."""
    core, name = block.core, block.name
    if not block.has_weights:
        return module_of(core)
    weights = builder.policy.weights
    assert isinstance(weights, LayerWeights)
    builder.layers(block)  # rounds the weights
    weight, bias = weights.real(name)
    grid, scale = builder.grids.get(name), weights.scale(name)
    if name in builder.raw:
        unit = np.array([max(np.abs(bias).max() / _BIAS_STEPS, scale.max())])
    else:
        unit = (grid or Grid.of(builder.types[name])).step
    read = builder.grids.get(block.inputs[0]) if block.sums_channels else None
    return _RoundedLayer(module_of(with_numbers(block, weight, bias.astype(np.float32))), scale, unit, read)


def _rounded(x: Tensor, kind: TensorType, grid: Grid | None) -> Tensor:
    if grid is None:
        return torch.fake_quantize_per_tensor_affine(x, kind.scale, kind.zero_point, kind.lo, kind.hi)
    zero = kind.lo - grid.start / grid.step
    return torch.fake_quantize_per_channel_affine(x, _tensor(grid.step), _tensor(zero), 1, kind.lo, kind.hi)


def _tensor(values: NDArray[np.float64]) -> Tensor:
    return torch.from_numpy(values.astype(np.float32))


def _array(tensor: Tensor) -> NDArray[np.float32]:
    array: NDArray[np.float32] = tensor.detach().numpy()
    return array
