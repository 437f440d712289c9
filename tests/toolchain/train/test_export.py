"""The exported graph equals the PyTorch network."""

from typing import Any

import numpy as np
import torch

from edgemeta.toolchain.float_model.forward import logits
from edgemeta.toolchain.train.batches import network_input
from edgemeta.toolchain.train.export import export_resnet8
from edgemeta.toolchain.train.networks import ResNet8


def test_export_equals_pytorch(pixels: Any) -> None:
    torch.manual_seed(1)
    network = ResNet8(7)
    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            assert module.running_mean is not None
            assert module.running_var is not None
            module.running_mean.normal_(0, 0.3)
            module.running_var.uniform_(0.5, 2)
            module.weight.data.uniform_(0.5, 1.5)
            module.bias.data.normal_(0, 0.3)
    network.eval()
    model = export_resnet8(network, "r8", tuple("abcdefg"), {"made": "here"})
    with torch.no_grad():
        wanted = network(network_input(np.ascontiguousarray(pixels.transpose(0, 3, 1, 2)))).numpy()
    np.testing.assert_allclose(logits(model, pixels), wanted, atol=1e-4)
    assert model.provenance == {"made": "here"}
    assert [x.name for x in model.layers if x.name.startswith("conv")] == [f"conv{i}" for i in range(9)]
