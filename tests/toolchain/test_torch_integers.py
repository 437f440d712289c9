"""A model file in PyTorch: the reference's integers in every layer, gradients, and what is written after training."""

from itertools import islice
from typing import Any

import numpy as np
import pytest

from edgemeta.model import reference, zoo
from edgemeta.model.errors import ModelError
from edgemeta.model.file import load
from edgemeta.model.layers import Conv, Multiplier, Weighted
from tests.conformance.cases import CASES, Case
from tests.conformance.generated import limits
from tests.conformance.operators import OPERATORS
from tests.parts import by_name, in_parts

torch = pytest.importorskip("torch", reason="PyTorch is not installed (pip install 'edgemeta[train]')")

from edgemeta.toolchain.errors import SimulateError  # noqa: E402
from edgemeta.toolchain.torch_integers import run_layer  # noqa: E402
from edgemeta.toolchain.torch_network import IntegerNetwork  # noqa: E402

SHIPPED = ("resnet8-cifar10", "resnet8-cifar10-paper", "resnet8-cifar10-pot5")
WITH_FIXED_WEIGHTS = SHIPPED[:2]  # powers of two are not trained here


def assert_equal_integers(network: Any, model: Any, batch: Any) -> None:
    expected = reference.trace(model, batch)
    with torch.no_grad():
        found = network.trace(torch.from_numpy(batch))
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        np.testing.assert_array_equal(found[name].numpy(), tensor, err_msg=name)


@pytest.mark.gate("10 s: 500 cases")
@in_parts(by_name(CASES))
def test_every_layer_equals_the_reference(case: Case) -> None:
    """The table of cases that every backend runs: random and extreme inputs."""
    network = IntegerNetwork(case.model)
    for _, batch in case.batches():
        assert_equal_integers(network, case.model, batch)


@pytest.mark.parametrize("name", ["constant", "matmul", "softmax", "normalize", "rearrange"])
def test_layers_of_attention_equal_the_reference(name: str) -> None:
    """At the limits of their fields."""
    operator = next(each for each in OPERATORS if each.name == name)
    for case in islice(limits(operator), 8):
        network = IntegerNetwork(case.model)
        for _, batch in case.batches():
            assert_equal_integers(network, case.model, batch)


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_models_keep_their_integers_in_training_mode_too(name: str) -> None:
    model = load(zoo.find(name))
    batch = np.random.default_rng(1).integers(-128, 128, (4, *model.input.shape)).astype(model.input.dtype)
    for training in (False, True):
        network = IntegerNetwork(model).train(training)
        assert_equal_integers(network, model, batch)
        assert_equal_integers(network, network.written(), batch)


@pytest.mark.parametrize("name", WITH_FIXED_WEIGHTS)
def test_what_was_trained_is_what_is_written(name: str) -> None:
    """Steps that make the loss less; the written model has the integers of the trained network in every layer."""
    model = load(zoo.find(name))
    network = IntegerNetwork(model)
    scale = next(layer for layer in model.layers if layer.name == model.outputs[0]).output.scale
    optimizer = torch.optim.SGD(network.parameters(), 20.0)
    rng = np.random.default_rng(2)
    batch = rng.integers(-128, 128, (16, *model.input.shape)).astype(model.input.dtype)
    labels = torch.from_numpy(rng.integers(0, 10, 16))
    losses = []
    for _ in range(6):
        logits, *_ = network(torch.from_numpy(batch))
        scaled = logits.reshape(16, -1) * scale
        loss = torch.nn.functional.cross_entropy(scaled, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < losses[0]
    written = network.written()
    changed = sum(
        int((a.weights.decode() != b.weights.decode()).sum())
        for a, b in zip(written.layers, model.layers, strict=True)
        if isinstance(a, Weighted)
    )
    assert changed > 100
    assert_equal_integers(network, written, batch[:4])


def test_the_gradient_is_that_of_the_real_numbers() -> None:
    """Of the first convolution: multiplier / 2**shift times that of its sums, and none where the output was clamped."""
    model = load(zoo.find("resnet8-cifar10"))
    layer = model.layers[0]
    assert isinstance(layer, Conv)
    assert isinstance(layer.requantize, Multiplier)
    rng = np.random.default_rng(3)
    x = torch.from_numpy(rng.integers(-128, 128, (4, 3, 32, 32)).astype(np.float64))
    weights = torch.from_numpy(layer.weights.decode().astype(np.float64)).requires_grad_()
    y = run_layer(layer, {"input": x}, {"input": model.input}, weights)
    mix = torch.from_numpy(rng.normal(size=tuple(y.shape)))
    within = (y > layer.requantize.lo) & (y < layer.requantize.hi)
    edge = (y == layer.requantize.lo) | (y == layer.requantize.hi)
    mix[edge] = 0  # whether it was clamped cannot be seen from the output
    (found,) = torch.autograd.grad((y * mix).sum(), weights)
    sums = torch.nn.functional.conv2d(x - model.input.zero_point, weights.permute(0, 3, 1, 2), padding=1)
    factors = torch.from_numpy(layer.requantize.multiplier / 2.0**layer.requantize.shift).reshape(1, -1, 1, 1)
    (expected,) = torch.autograd.grad((sums * factors * mix * within).sum(), weights)
    torch.testing.assert_close(found, expected)
    assert 0.2 < within.double().mean() < 0.95


def test_weights_that_no_model_may_have(monkeypatch: pytest.MonkeyPatch) -> None:
    from edgemeta.toolchain import torch_network

    def refuse(_model: object) -> None:
        raise ModelError("layer conv0: the accumulator does not fit")

    monkeypatch.setattr(torch_network, "prove", refuse)
    with pytest.raises(SimulateError, match="no valid model: layer conv0"):
        IntegerNetwork(load(zoo.find("resnet8-cifar10"))).written()
