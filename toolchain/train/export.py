"""Converts the trained PyTorch student to a float graph."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from edgemeta.model.tasks import Classification
from edgemeta.toolchain.float_model.graph import (
    Add,
    BatchNorm,
    Conv,
    Dense,
    FloatLayer,
    FloatModel,
    GlobalAverage,
    Relu,
    check,
)
from edgemeta.toolchain.train.networks import RESNET8_CONVS, ResNet8


def export_resnet8(
    network: ResNet8, name: str, labels: tuple[str, ...], provenance: Mapping[str, object]
) -> FloatModel:
    """The network as a float graph; batch norm stays separate, so that a quantizer can fold it or tabulate it."""
    layers: list[FloatLayer] = []

    def block(number: int, source: str, relu: bool) -> str:
        conv, norm = network.get_submodule(f"conv{number}"), network.get_submodule(f"bn{number}")
        assert isinstance(conv, nn.Conv2d)
        assert isinstance(norm, nn.BatchNorm2d)
        _, _, kernel, stride = RESNET8_CONVS[number]
        pads = _same_padding(kernel)
        weight = np.ascontiguousarray(_array(conv.weight).transpose(0, 2, 3, 1))
        layers.append(Conv(f"conv{number}", source, weight, None, (stride, stride), pads))
        layers.append(_norm(f"bn{number}", f"conv{number}", norm))
        if relu:
            layers.append(Relu(f"relu{number}", f"bn{number}"))
        return layers[-1].name

    def join(number: int, a: str, b: str) -> str:
        layers.append(Add(f"add{number}", (a, b)))
        layers.append(Relu(f"relu{number}", f"add{number}"))
        return f"relu{number}"

    x = block(0, "input", relu=True)
    x = join(2, x, block(2, block(1, x, relu=True), relu=False))
    x = join(5, block(3, x, relu=False), block(5, block(4, x, relu=True), relu=False))
    x = join(8, block(6, x, relu=False), block(8, block(7, x, relu=True), relu=False))
    layers.append(GlobalAverage("pool", x))
    layers.append(Dense("fc", "pool", _array(network.fc.weight), _array(network.fc.bias)))
    model = FloatModel(
        name=name,
        input_shape=(32, 32, 3),
        layers=tuple(layers),
        outputs=("fc",),
        task=Classification(labels),
        provenance=provenance,
    )
    check(model, name)
    return model


def _same_padding(kernel: int) -> tuple[int, int, int, int]:
    return (kernel // 2, kernel // 2, kernel // 2, kernel // 2)


def _norm(name: str, source: str, norm: nn.BatchNorm2d) -> BatchNorm:
    mean, variance = norm.running_mean, norm.running_var
    assert mean is not None
    assert variance is not None
    return BatchNorm(
        name, source, _array(norm.weight), _array(norm.bias), _array(mean), _array(variance), float(norm.eps)
    )


def _array(tensor: Tensor) -> NDArray[np.float32]:
    return np.ascontiguousarray(tensor.detach().to("cpu").float().numpy())
