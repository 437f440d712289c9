"""Converts a trained PyTorch chain to a float graph, and a float graph's weights back."""

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from edgemeta.model.tasks import Classification, Task
from edgemeta.toolchain.errors import FloatModelError
from edgemeta.toolchain.float_model.graph import (
    Add,
    BatchNorm,
    Concat,
    Conv,
    Dense,
    FloatLayer,
    FloatModel,
    GlobalAverage,
    Pool,
    Relu,
    Upsample,
)
from edgemeta.toolchain.float_model.shapes import check
from edgemeta.toolchain.train.chain import Chain, Concatenation, Doubling, Link, LinkedLayers, Mean, Sum


def export_network(network: Chain, name: str, labels: tuple[str, ...], provenance: Mapping[str, object]) -> FloatModel:
    """A classification as a float graph."""
    return export_layers(network, name, (network.links[-1].name,), Classification(labels), provenance)


def export_layers(
    network: LinkedLayers, name: str, outputs: tuple[str, ...], task: Task, provenance: Mapping[str, object]
) -> FloatModel:
    """The network as a float graph; batch norm stays separate, so that a quantizer can fold it or tabulate it."""
    model = FloatModel(
        name=name,
        input_shape=(network.size, network.size, 3),
        layers=tuple(_layer(link, network.get_submodule(link.name)) for link in network.links),
        outputs=outputs,
        task=task,
        provenance=provenance,
    )
    check(model, name)
    return model


def load_weights(network: LinkedLayers, model: FloatModel, source: str) -> None:
    """Set the network's weights to those of a float model of the same layers; "fc" stays if its classes differ.

    Raises FloatModelError with `source` and the first layer that is missing or has another shape.
    """
    given = parameters_of(model)
    state = network.state_dict()
    for name, mine in state.items():
        if name not in given:
            if name.endswith(".num_batches_tracked"):
                continue
            raise FloatModelError(f"{source}: has no {name}, expected the layers of the network to train")
        shape = tuple(given[name].shape)
        if shape == tuple(mine.shape):
            state[name] = given[name]
        elif not name.startswith("fc."):
            raise FloatModelError(f"{source}: {name} has shape {shape}, expected {tuple(mine.shape)}")
    network.load_state_dict(state)


def _layer(link: Link, module: nn.Module) -> FloatLayer:
    name, source = link.name, link.inputs[0]
    match module:
        case nn.Conv2d():
            stride, pad = module.stride[0], module.padding[0]
            assert isinstance(pad, int)
            weight = np.ascontiguousarray(_array(module.weight).transpose(0, 2, 3, 1))
            bias = None if module.bias is None else _array(module.bias)
            return Conv(name, source, weight, bias, (stride, stride), (pad, pad, pad, pad), module.groups)
        case nn.BatchNorm2d():
            mean, variance = module.running_mean, module.running_var
            assert mean is not None
            assert variance is not None
            shift, factor = _array(module.bias), _array(module.weight)
            return BatchNorm(name, source, factor, shift, _array(mean), _array(variance), float(module.eps))
        case nn.ReLU():
            return Relu(name, source)
        case nn.ReLU6():
            return Relu(name, source, 6.0)
        case nn.MaxPool2d():
            size = module.kernel_size
            assert isinstance(size, int)
            return Pool(name, source, "max", (size, size), (size, size))
        case Sum():
            return Add(name, (source, link.inputs[1]))
        case Concatenation():
            return Concat(name, link.inputs)
        case Doubling():
            return Upsample(name, source, (2, 2))
        case Mean():
            return GlobalAverage(name, source)
        case nn.Linear():
            return Dense(name, source, _array(module.weight), _array(module.bias))
    raise AssertionError(f"no float layer for {type(module).__name__}")


def parameters_of(model: FloatModel) -> dict[str, Tensor]:
    """The weights of a float model under their PyTorch names."""
    arrays: dict[str, NDArray[np.float32] | None] = {}
    for layer in model.layers:
        match layer:
            case Conv():
                arrays |= {f"{layer.name}.weight": layer.weight.transpose(0, 3, 1, 2), f"{layer.name}.bias": layer.bias}
            case BatchNorm():
                arrays |= {
                    f"{layer.name}.weight": layer.gamma,
                    f"{layer.name}.bias": layer.beta,
                    f"{layer.name}.running_mean": layer.mean,
                    f"{layer.name}.running_var": layer.variance,
                }
            case Dense():
                arrays |= {f"{layer.name}.weight": layer.weight, f"{layer.name}.bias": layer.bias}
    return {name: torch.from_numpy(np.array(array)) for name, array in arrays.items() if array is not None}


def _array(tensor: Tensor) -> NDArray[np.float32]:
    return np.ascontiguousarray(tensor.detach().to("cpu").float().numpy())
