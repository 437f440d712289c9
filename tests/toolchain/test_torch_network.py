"""The exported graph equals the PyTorch network, and its weights can be loaded back."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgemeta.model.errors import ModelError
from edgemeta.model.float_file import load_float_model, save_float_model
from edgemeta.model.float_reference import logits

torch = pytest.importorskip("torch", reason="PyTorch is not installed (pip install 'edgemeta[train]')")

from edgemeta.toolchain.torch_network import TorchNetwork, load_weights  # noqa: E402
from edgemeta.toolchain.train.batches import network_input  # noqa: E402
from edgemeta.toolchain.train.designs import Design  # noqa: E402
from edgemeta.toolchain.train.networks import build  # noqa: E402

DESIGNS = [
    Design(7),
    Design(7, 24, depth=20, width=0.5),
    Design(7, 50, depth=14),
    Design(7, 97, depth=8, width=0.3),
    Design(7, 35, "mobilenetv2", width=0.25),
    Design(7, 96, "mobilenetv2", width=0.25),
    Design(7, 32, "vgg16", width=0.125),
    Design(7, 45, "vgg16", width=0.125),
    Design(7, 32, "alexnet", width=0.125),
    Design(7, 200, "alexnet", width=0.125),
]


def trained(design: Design) -> TorchNetwork:
    """A network whose batch norms are not those of a fresh one."""
    torch.manual_seed(1)
    network = build(design)
    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            assert module.running_mean is not None
            assert module.running_var is not None
            module.running_mean.normal_(0, 0.3)
            module.running_var.uniform_(0.5, 2)
            module.weight.data.uniform_(0.5, 1.5)
            module.bias.data.normal_(0, 0.3)
    return network.eval()


def images(size: int) -> Any:
    return np.random.default_rng(5).integers(0, 256, (4, size, size, 3)).astype(np.uint8)


@pytest.mark.parametrize("design", DESIGNS, ids=lambda d: f"{d.name}-{d.size}")
def test_export_equals_pytorch(design: Design) -> None:
    network, pixels = trained(design), images(design.size)
    model = network.classification("net", tuple("abcdefg"), {"made": "here"})
    with torch.no_grad():
        wanted = network(network_input(np.ascontiguousarray(pixels.transpose(0, 3, 1, 2)))).numpy()
    np.testing.assert_allclose(logits(model, pixels), wanted, atol=1e-4 * max(1.0, np.abs(wanted).max()))
    assert model.provenance == {"made": "here"}


def test_resnet8_keeps_the_layers_of_the_shipped_file(repository: Path) -> None:
    shipped = load_float_model(repository / "model" / "zoo" / "resnet8-cifar10-float.safetensors")
    ours = trained(Design()).classification("r8", shipped.labels, {})
    assert [x.name for x in ours.layers if x.name.startswith("conv")] == [f"conv{i}" for i in range(9)]
    assert {(type(x), x.name) for x in ours.layers} == {(type(x), x.name) for x in shipped.layers}


def test_weights_of_a_float_file_load_back(tmp_path: Path) -> None:
    network = trained(DESIGNS[4])
    save_float_model(network.classification("net", tuple("abcdefg"), {}), tmp_path / "net.safetensors")
    model = load_float_model(tmp_path / "net.safetensors")
    torch.manual_seed(2)
    other = build(replace(DESIGNS[4], size=64))
    load_weights(other, model, "net")
    mine, theirs = other.state_dict(), network.state_dict()
    assert all((mine[k] == theirs[k]).all() for k in mine if not k.endswith("tracked"))
    fewer = build(replace(DESIGNS[4], classes=3))
    before = fewer.fc.weight.clone()
    load_weights(fewer, model, "net")
    assert (fewer.fc.weight == before).all()  # type: ignore[arg-type]
    assert (fewer.state_dict()["conv0.weight"] == theirs["conv0.weight"]).all()


def test_weights_of_another_network_are_refused() -> None:
    model = trained(Design(7)).classification("net", tuple("abcdefg"), {})
    with pytest.raises(ModelError, match=r"net: conv0\.weight has shape \(16, 3, 3, 3\), expected \(32,"):
        load_weights(build(Design(7, width=2)), model, "net")
    with pytest.raises(ModelError, match=r"net: conv3\.weight has shape|net: has no conv9\.weight"):
        load_weights(build(Design(7, depth=14)), model, "net")
