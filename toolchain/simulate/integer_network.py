"""A model file as a PyTorch network whose integers are the device's: to evaluate, to train on, and to write again."""

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from edgemeta.model.errors import ModelError
from edgemeta.model.graph import INPUT, Model
from edgemeta.model.layers import Conv, Dense
from edgemeta.model.prove import prove
from edgemeta.model.weights import FixedWeights
from edgemeta.toolchain.errors import SimulateError
from edgemeta.toolchain.simulate.integer_layers import run_layer


class _Nearest(torch.autograd.Function):
    """Whole numbers of least .. greatest, half up; the gradient goes straight through, and ends beyond them."""

    @staticmethod
    def forward(ctx, x: Tensor, least: int, greatest: int) -> Tensor:  # type: ignore[no-untyped-def]
        ctx.save_for_backward((x >= least - 0.5) & (x < greatest + 0.5))
        return torch.floor(x + 0.5).clamp(least, greatest)

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, None, None]:  # type: ignore[no-untyped-def]
        (inside,) = ctx.saved_tensors
        return torch.where(inside, gradient, 0.0), None, None


class IntegerNetwork(nn.Module):
    """A proved model as a module, in training as in evaluation.

    forward: input integers [N, H, W, C] (any dtype) to the outputs' integers, each float64 [N, H, W, C], equal to
    `model.reference.run`. Weights of fixed encoding are parameters, float64 in units of their step, rounded where they
    are used; other encodings stay as they are.
    """

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model
        self._types = model.types
        self._bits: dict[str, int] = {}
        for layer in model.layers:
            if not isinstance(layer, Conv | Dense):
                continue
            weights = torch.from_numpy(layer.weights.decode().astype(np.float64))
            if isinstance(layer.weights, FixedWeights):
                self._bits[layer.name] = layer.weights.bits
                self.register_parameter(_key(layer.name), nn.Parameter(weights))
            else:
                self.register_buffer(_key(layer.name), weights)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        """The outputs, in the model's order."""
        tensors = self.trace(x)
        return tuple(tensors[name] for name in self.model.outputs)

    def trace(self, x: Tensor) -> dict[str, Tensor]:
        """All tensors by name, float64 [N, H, W, C]."""
        tensors = {INPUT: x.to(torch.float64).permute(0, 3, 1, 2)}
        for layer in self.model.layers:
            weights = self._weights(layer.name) if isinstance(layer, Conv | Dense) else None
            tensors[layer.name] = run_layer(layer, tensors, self._types, weights)
        return {name: tensor.permute(0, 2, 3, 1) for name, tensor in tensors.items()}

    def written(self) -> Model:
        """The model with the weights as they are now. Raises SimulateError if an accumulator could overflow."""
        layers = []
        for layer in self.model.layers:
            if layer.name in self._bits:
                assert isinstance(layer, Conv | Dense)
                assert isinstance(layer.weights, FixedWeights)
                values: NDArray[np.int8] = self._weights(layer.name).detach().numpy().astype(np.int8)
                layer = replace(layer, weights=replace(layer.weights, values=values))
            layers.append(layer)
        model = replace(self.model, layers=tuple(layers))
        try:
            prove(model)
        except ModelError as error:
            raise SimulateError(f"the trained weights make no valid model: {error}") from error
        return model

    def _weights(self, name: str) -> Tensor:
        weights: Tensor = getattr(self, _key(name))
        if name not in self._bits:
            return weights
        least = -(1 << self._bits[name] - 1)
        rounded: Tensor = _Nearest.apply(weights, least, -least - 1)  # type: ignore[no-untyped-call]
        return rounded


def _key(name: str) -> str:
    """Name of a layer's weights in the module: without dots, which PyTorch keeps for modules."""
    return f"{name.replace('.', '/')} weights"
