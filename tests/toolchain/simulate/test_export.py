"""A network trained under integer rules as a model file: its integers are those that it was trained with."""

from typing import Any

import numpy as np
import pytest

from edgemeta.model import reference
from edgemeta.model.graph import Model
from edgemeta.model.layers import Conv, Dense
from edgemeta.model.weights import FixedWeights, PowerOfTwoWeights
from edgemeta.toolchain.data.frames import ArrayFrames

torch = pytest.importorskip("torch", reason="PyTorch is not installed (pip install 'edgemeta[train]')")

from edgemeta.toolchain.errors import SimulateError  # noqa: E402
from edgemeta.toolchain.quantize.calibration import PreparedImages  # noqa: E402
from edgemeta.toolchain.simulate.export import export  # noqa: E402
from edgemeta.toolchain.simulate.prepare import prepare, rounded_weights  # noqa: E402
from edgemeta.toolchain.torch_network import IntegerNetwork  # noqa: E402
from edgemeta.toolchain.train.designs import Design  # noqa: E402
from edgemeta.toolchain.train.networks import build  # noqa: E402

LABELS = ("a", "b", "c")
SCORES = {"layers": "fc", "activation": "int8", "weight": "int8_symmetric"}


def trained(*rules: dict[str, Any], family: str = "resnet", steps: int = 4) -> tuple[Any, Any]:
    """A small network after some steps under the rules, and images."""
    torch.manual_seed(3)
    network = build(Design(3, 24, family, width=0.25))  # type: ignore[arg-type]
    for name, parameter in network.named_parameters():
        if "bn" in name and name.endswith("weight"):
            parameter.data[::3] *= -1  # batch norms of either sign
    prepare(network, {"seed": 5, "rules": list(rules)})
    rng = np.random.default_rng(7)
    images = rng.integers(0, 256, (24, 24, 24, 3)).astype(np.uint8)
    images[:8, 4:12] = 255  # classes that can be told apart
    images[8:16, :, 4:12] = 0
    labels = torch.arange(3).repeat_interleave(8)
    optimizer = torch.optim.SGD(network.parameters(), 0.02, momentum=0.9)
    for _ in range(steps):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(network(real(images)), labels).backward()
        optimizer.step()
    return network.eval(), images


def real(images: Any) -> Any:
    return torch.from_numpy((images.transpose(0, 3, 1, 2).astype(np.float32) - 128) / 128)


def exported(network: Any, images: Any) -> Model:
    with rounded_weights(network):
        floats = network.classification("small", LABELS, {})
    return export(network, floats, PreparedImages(floats, ArrayFrames(images, "test")))


def integers_of(images: Any) -> Any:
    return (images.astype(np.int16) - 128).astype(np.int8)


@pytest.mark.parametrize(
    "family", ["resnet", pytest.param("mobilenetv2", marks=pytest.mark.gate("10 s of processor time: 54 layers"))]
)
@pytest.mark.parametrize(
    ("activation", "weight"),
    [
        ("int8", "int8_per_channel"),
        ({"kind": "int", "bits": 4, "signed": False}, {"kind": "int", "bits": 3, "symmetric": True}),
        ({"kind": "fixed", "bits": 8, "fraction": 5}, "power_of_two_5"),
        ("int8", "float32"),
    ],
)
def test_the_device_has_the_integers_of_the_training(family: str, activation: Any, weight: Any) -> None:
    rules = {"layers": "*", "activation": activation, "weight": weight}
    network, images = trained(rules, {"layers": "conv0", "activation": "int8"}, SCORES, family=family)
    model = exported(network, images)
    batch = integers_of(images)
    with torch.no_grad():
        found = IntegerNetwork(model).trace(torch.from_numpy(batch))
    for name, tensor in reference.trace(model, batch).items():
        np.testing.assert_array_equal(found[name].numpy(), tensor, err_msg=name)
    for layer in model.layers:
        if isinstance(layer, Conv | Dense) and weight != "float32":
            assert_trained_weights(network, layer)


def assert_trained_weights(network: Any, layer: Conv | Dense) -> None:
    """scale * integer is the rounded weight times the factor of the batch norm."""
    module = network.get_submodule(layer.name)
    with torch.no_grad(), rounded_weights(network):
        wanted = module.weight.double().numpy()
    if isinstance(layer, Conv):
        norm = network.get_submodule(layer.name.replace("conv", "bn"))
        factors = (norm.weight.double() / torch.sqrt(norm.running_var.double() + norm.eps)).detach().numpy()
        wanted = (wanted * factors.reshape(-1, 1, 1, 1)).transpose(0, 2, 3, 1)
    weights = layer.weights.decode()
    real_weights = weights * layer.weights.scale.reshape(-1, *[1] * (weights.ndim - 1))
    np.testing.assert_allclose(real_weights, wanted, rtol=1e-5, atol=1e-12)


def test_scores_are_nearly_those_of_the_training() -> None:
    network, images = trained({"layers": "*", "activation": "int8", "weight": "int8_per_channel"}, SCORES, steps=12)
    model = exported(network, images)
    (scores,) = reference.run(model, integers_of(images))
    with torch.no_grad():
        wanted = network(real(images)).numpy()
    found = scores[:, 0, 0] * model.layers[-1].output.scale
    error = np.square(found - wanted).mean() / wanted.var()
    assert error < 2e-3
    assert {type(layer.weights) for layer in model.layers if isinstance(layer, Conv | Dense)} == {FixedWeights}
    assert model.provenance["formats"]["fc"] == {"weight": "int8_symmetric", "activation": "int8"}  # type: ignore[index]


def test_powers_of_two_and_widths_are_kept() -> None:
    rules = {"layers": "*", "activation": {"kind": "int", "bits": 5, "signed": False}, "weight": "power_of_two_3"}
    network, images = trained(rules, {"layers": "conv0", "activation": "int8"}, SCORES, steps=1)
    model = exported(network, images)
    convolutions = [layer for layer in model.layers if isinstance(layer, Conv)]
    assert all(isinstance(layer.weights, PowerOfTwoWeights) and layer.weights.bits == 3 for layer in convolutions)
    types = model.types
    assert (types["conv0"].bits, types["conv0"].signed, types["conv0"].zero_point) == (5, False, 0)


@pytest.mark.parametrize(
    ("rules", "sentence"),
    [
        ([{"layers": "*", "activation": "fp8_e4m3"}], "layer 'conv0': its activation is fp8_e4m3, which no device"),
        ([{"layers": "conv1", "weight": "int8"}], "layer 'conv1': its weight is int8, which no device computes with"),
        ([{"layers": "*", "weight": "int8_per_channel"}], "layer 'fc' gives the scores"),
        ([{"layers": "*", "activation": "int4", "weight": "int8_symmetric"}], "reads the image with 4 bits"),
        (
            [{"layers": "*", "activation": "int8"}, {"layers": "conv3", "activation": {"kind": "int", "bits": 7}}],
            "another layer reads it otherwise",
        ),
        (
            [
                {"layers": "*", "activation": "int8", "weight": "int8_symmetric"},
                {"layers": "conv1", "accumulator": {"bits": 16, "overflow": "wrap"}},
            ],
            r"'conv1' was trained with an accumulator\(bits=16, overflow=wrap\), expected none",
        ),
    ],
)
def test_formats_that_no_device_has(rules: list[dict[str, Any]], sentence: str) -> None:
    network, images = trained(*rules, steps=1)
    with pytest.raises(SimulateError, match=sentence):
        exported(network, images)


def test_a_range_that_was_never_observed() -> None:
    network, images = trained({"layers": "*", "activation": "int8"}, steps=0)
    with pytest.raises(SimulateError, match="never observed"):
        exported(network, images)
