"""The bridge to PyTorch: a graph, float or integer, as a module that is evaluated or trained, and written again.

A float network is put under number formats by `simulate.prepare`; its modules have the names of its layers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from edgemeta.model.errors import ModelError
from edgemeta.model.graph import INPUT, FloatModel, Model
from edgemeta.model.layers import FloatLayer, Weighted
from edgemeta.model.prove import prove
from edgemeta.model.prove_float import prove_float
from edgemeta.model.tasks import Classification, Task
from edgemeta.model.weights import FixedWeights
from edgemeta.toolchain.errors import SimulateError
from edgemeta.toolchain.torch_integers import run_layer
from edgemeta.toolchain.torch_layers import module_of, with_weights

_TINY = 1e-30


def imitation_loss(outputs: tuple[Tensor, ...], targets: tuple[Tensor, ...]) -> Tensor:
    """The mean over all outputs of mean((y - t)^2) / variance(t), of outputs y and targets t, both [B, C, H, W].

    The variance is that of all elements of t in the batch.
    """
    errors = [
        (output.float() - target).square().mean() / target.var(correction=0).clamp(min=_TINY)
        for output, target in zip(outputs, targets, strict=True)
    ]
    return torch.stack(errors).mean()


class TorchNetwork(nn.Module):
    """A float graph as a module; batch norms stay apart, so that a quantizer can fold or tabulate them.

    Its modules are named after the layers ("conv0.weight" in its state), a dot in a name being a slash.
    """

    def __init__(self, model: FloatModel) -> None:
        super().__init__()
        self._model = model
        self._names: dict[str, str] = {}
        self._last_reader = {name: layer.name for layer in model.layers for name in layer.sources}
        for layer in model.layers:
            key = layer.name.replace(".", "/")
            while hasattr(self, key):
                key += "_"
            self._names[layer.name] = key
            self.add_module(key, module_of(layer))

    @property
    def input_size(self) -> tuple[int, int]:
        """Height and width of the input."""
        height, width, _ = self._model.input_shape
        return height, width

    @property
    def layers(self) -> tuple[FloatLayer, ...]:
        """The records of the graph, with the weights that the network began with."""
        return self._model.layers

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the output tensors."""
        return self._model.outputs

    @property
    def task(self) -> Task:
        """What the outputs mean."""
        return self._model.task

    @property
    def module_names(self) -> dict[str, str]:
        """Name of the module of each layer, by the layer's name."""
        return dict(self._names)

    def forward(self, x: Tensor) -> Any:
        """Of x [N, 3, H, W]: logits [N, labels] of a classification, else a tuple of all outputs [N, C', H', W'].

        x: (pixel - 128) / 128 in R, G, B order, as trainings have it, whatever the network's own input is.
        """
        values = self.values(self.own_input(x), self.outputs)
        return values[0].flatten(1) if self._model.is_classification else values

    def own_input(self, x: Tensor) -> Tensor:
        """The network's input [N, 3, H, W], (pixel - mean) / scale, for x of `forward`; exact up to the division."""
        model = self._model
        if {*model.mean, *model.scale} == {128.0} and model.colour == "rgb":
            return x
        mean, scale = (x.new_tensor(each).reshape(1, -1, 1, 1) for each in (model.mean, model.scale))
        return (128.0 * x[:, ["rgb".index(letter) for letter in model.colour]] + 128.0 - mean) / scale

    def values(self, x: Tensor, names: Sequence[str]) -> tuple[Tensor, ...]:
        """These tensors [N, C', H', W'] for the network's own input x [N, C, H, W]."""
        values = {INPUT: x}
        for layer in self.layers:
            read, module = layer.sources, self.get_submodule(self._names[layer.name])
            inputs = [values[name] for name in read]
            if isinstance(module, nn.Linear):
                values[layer.name] = module(inputs[0].permute(0, 2, 3, 1).flatten(1))[:, :, None, None]
            else:
                values[layer.name] = module(*inputs)
            for name in set(read).difference(names):
                if self._last_reader[name] == layer.name:  # an evaluation keeps no more tensors than it needs
                    del values[name]
        return tuple(values[name] for name in names)

    def written(self, **changes: Any) -> FloatModel:
        """The graph with the weights as they are now; changes: of the fields of FloatModel. Raises ModelError."""
        layers = (with_weights(layer, self.get_submodule(self._names[layer.name])) for layer in self.layers)
        model = replace(self._model, layers=tuple(layers), **changes)
        prove_float(model, model.name)
        return model

    def classification(self, name: str, labels: tuple[str, ...], provenance: Mapping[str, object]) -> FloatModel:
        """The graph with the weights as they are now, under a name, for labels."""
        return self.written(name=name, task=Classification(labels), provenance=provenance)


def load_weights(network: TorchNetwork, model: FloatModel, source: str, own: tuple[str, ...] = ("fc",)) -> None:
    """Set the network's weights to those of a float model of the same layers: `load_state` of its state."""
    load_state(network, TorchNetwork(model).state_dict(), source, own)


def load_state(network: TorchNetwork, given: Mapping[str, Tensor], source: str, own: tuple[str, ...]) -> None:
    """Set the network's state; `own` layers stay if their classes differ.

    Raises ModelError with `source` and the first layer that is missing or has another shape.
    """
    state = network.state_dict()
    for name, mine in state.items():
        if name not in given:
            raise ModelError(f"{source}: has no {name}, expected the layers of the network to train")
        if given[name].shape == mine.shape:
            state[name] = given[name]
        elif name.rpartition(".")[0] not in own:
            raise ModelError(f"{source}: {name} has shape {tuple(given[name].shape)}, expected {tuple(mine.shape)}")
    network.load_state_dict(state)


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
        self.model = replace(model, layers=tuple(layer.equivalent for layer in model.layers))
        self._types = model.types
        self._bits: dict[str, int] = {}
        for layer in self.model.layers:
            if not isinstance(layer, Weighted):
                continue
            weights = torch.from_numpy(layer.weights.decode().astype(np.float64))
            if isinstance(layer.weights, FixedWeights):
                self._bits[layer.name] = layer.weights.bits
                self.register_parameter(_key(layer.name), nn.Parameter(weights))
            else:
                self.register_buffer(_key(layer.name), weights)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        """The outputs [N, H, W, C] of x [N, H, W, C], in the model's order."""
        tensors = self.trace(x)
        return tuple(tensors[name] for name in self.model.outputs)

    def trace(self, x: Tensor) -> dict[str, Tensor]:
        """All tensors by name, float64 [N, H, W, C]."""
        tensors = {INPUT: x.to(torch.float64).permute(0, 3, 1, 2)}
        for layer in self.model.layers:
            weights = self._weights(layer.name) if isinstance(layer, Weighted) else None
            tensors[layer.name] = run_layer(layer, tensors, self._types, weights)
        return {name: tensor.permute(0, 2, 3, 1) for name, tensor in tensors.items()}

    def written(self) -> Model:
        """The model with the weights as they are now. Raises SimulateError if an accumulator could overflow."""
        layers = []
        for layer in self.model.layers:
            if layer.name in self._bits:
                assert isinstance(layer, Weighted)
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
