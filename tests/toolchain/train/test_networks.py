"""The networks: published sizes, every input size."""

from typing import Any

import pytest
import torch
from torch import nn

from edgemeta.toolchain.torch_layers import StridedDepthwise, StridedPointwise
from edgemeta.toolchain.train.designs import Design
from edgemeta.toolchain.train.networks import build, halvings


def test_resnet8_has_the_papers_size() -> None:
    network = build(Design())
    assert sum(p.numel() for p in network.parameters() if p.ndim == 4) == 76_720
    assert sum(p.numel() for p in network.parameters()) == 78_042
    assert network(torch.zeros(2, 3, 32, 32)).shape == (2, 10)


def test_mobilenetv2_has_the_published_sizes() -> None:
    """Trained parameters of the published weights: Keras' count without classes, less the statistics."""
    for width, published in ((0.35, 410_208 - 14_080), (1.0, 2_257_984 - 34_112)):
        network = build(Design(1000, 224, "mobilenetv2", width=width))
        assert sum(p.numel() for p in network.parameters()) == published + 1_281_000, width


def test_the_networks_for_cifar_have_the_published_sizes() -> None:
    """VGG16's 14,710,464 weights of 3x3 (the published 14,714,688 less 4,224 biases), and ResNet-20's 0.27 million."""
    vgg = build(Design(family="vgg16"))
    assert sum(p.numel() for p in vgg.parameters() if p.ndim == 4) == 14_710_464
    pools = [layer.name for layer in vgg.layers if layer.name.startswith("pool")]
    assert pools == ["pool0", "pool1", "pool2", "pool3", "pool4", "pool"]
    assert sum(p.numel() for p in build(Design(depth=20)).parameters()) == 272_474


def test_alexnet_has_the_published_filters_and_neurons() -> None:
    """torchvision's AlexNet: 64, 192, 384, 256, 256 filters; its third to fifth convolution and second dense layer."""
    network = build(Design(family="alexnet"))
    weights = [tuple(p.shape) for p in network.parameters() if p.ndim in (2, 4)]
    assert [shape[0] for shape in weights] == [64, 192, 384, 256, 256, 4096, 4096, 10]
    assert weights[2:5] == [(384, 192, 3, 3), (256, 384, 3, 3), (256, 256, 3, 3)]
    assert weights[6] == (4096, 4096)


@pytest.mark.parametrize("depth", [8, 14, 20])
def test_a_residual_network_has_its_depth(depth: int) -> None:
    network = build(Design(depth=depth))
    kernels = [p for p in network.parameters() if p.ndim == 4 and p.shape[2] == 3]
    assert len(kernels) + 1 == depth  # without the projections of two stages, with the dense layer


def test_a_grid_is_halved_as_often_as_six_rows_remain() -> None:
    assert {size: halvings(size) for size in (24, 32, 47, 48, 64, 96, 128, 191, 192, 224)} == {
        24: 2,
        32: 2,
        47: 2,
        48: 3,
        64: 3,
        96: 4,
        128: 4,
        191: 4,
        192: 5,
        224: 5,
    }


@pytest.mark.parametrize("size", [24, 33, 48, 95, 96, 160, 224])
@pytest.mark.parametrize("family", ["resnet", "mobilenetv2", "vgg16", "alexnet"])
def test_every_size_gives_logits(family: str, size: int) -> None:
    design = Design(3, size, family, depth=8, width=0.25)  # type: ignore[arg-type]
    network = build(design).eval()
    with torch.no_grad():
        assert network(torch.zeros(1, 3, size, size)).shape == (1, 3)
    assert len({layer.name for layer in network.layers}) == len(network.layers)


def test_weights_of_one_size_fit_another() -> None:
    for family in ("resnet", "mobilenetv2", "vgg16", "alexnet"):
        small, large = (build(Design(4, size, family, 14, 0.5)) for size in (32, 224))  # type: ignore[arg-type]
        large.load_state_dict(small.state_dict())


def test_a_strided_depthwise_convolution_computes_in_float32_beside_bfloat16() -> None:
    """Its outputs are those of float32 rounded to bfloat16 once, and its gradients those of float32."""
    torch.manual_seed(1)
    kind = next(m for m in build(Design(family="mobilenetv2", width=0.25)).modules() if isinstance(m, StridedDepthwise))
    plain = nn.Conv2d(kind.in_channels, kind.out_channels, 3, 2, 1, groups=kind.groups, bias=False)
    plain.load_state_dict(kind.state_dict())
    x = torch.randn(2, kind.in_channels, 8, 8).bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        output = kind(x)
    expected = plain(x.float())
    assert output.dtype == torch.bfloat16
    assert torch.equal(output, expected.bfloat16())
    for each in (output, expected):
        loss: Any = each.float().sum()
        loss.backward()
    assert plain.weight.grad is not None
    assert kind.weight.grad is not None
    assert torch.equal(kind.weight.grad, plain.weight.grad)


def test_a_strided_pointwise_convolution_of_few_inputs_has_the_gradients_of_float64() -> None:
    """Channels last, where PyTorch's own corrupts the heap with AVX2."""
    found = [
        m for m in build(Design(family="resnet", depth=8, width=0.125)).modules() if isinstance(m, StridedPointwise)
    ]
    assert [(kind.in_channels, kind.stride) for kind in found] == [(2, (2, 2)), (4, (2, 2))]
    torch.manual_seed(1)
    for kind in found:
        kind.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        plain = nn.Conv2d(kind.in_channels, kind.out_channels, 1, 2, bias=False, dtype=torch.float64)
        plain.load_state_dict(kind.state_dict())
        x = torch.randn(16, kind.in_channels, 32, 32).contiguous(memory_format=torch.channels_last).requires_grad_()
        exact = x.detach().double().requires_grad_()
        output, expected = kind(x), plain(exact)
        for each in (output, expected):
            each.square().sum().backward()
        torch.testing.assert_close(output.double(), expected, rtol=1e-4, atol=1e-4)
        for gradient, of_float64 in ((x.grad, exact.grad), (kind.weight.grad, plain.weight.grad)):
            assert gradient is not None
            torch.testing.assert_close(gradient.double(), of_float64, rtol=1e-4, atol=1e-4)
