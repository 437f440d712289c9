"""A prepared network: what it rounds, that training, saving and compiling go on as before, and what is refused."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgemeta.toolchain.errors import SimulateError
from edgemeta.toolchain.number_formats.formats import format_of

torch = pytest.importorskip("torch", reason="PyTorch is not installed (pip install 'edgemeta[train]')")

from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402
from torch.nn.utils import parametrizations, prune  # noqa: E402

from edgemeta.toolchain.number_formats.rounding import round_to_grid  # noqa: E402
from edgemeta.toolchain.simulate.prepare import prepare, quantizers_of  # noqa: E402
from edgemeta.toolchain.simulate.rules import load_rules  # noqa: E402

INT8 = {"layers": "*", "activation": "int8", "weight": "int8_per_channel", "gradient": "flexfp8_e5m2_shared"}


def network() -> Any:
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 4),
    )


def batch() -> Any:
    return torch.randn(16, 3, 8, 8, generator=torch.Generator().manual_seed(2))


def rules(*entries: dict[str, Any], **options: Any) -> dict[str, Any]:
    return {"rules": list(entries), **options}


def step(model: Any, optimizer: Any) -> float:
    optimizer.zero_grad()
    loss = functional.cross_entropy(model(batch()), torch.arange(16) % 4)
    loss.backward()
    optimizer.step()
    return float(loss.detach())


def test_every_operand_of_a_multiplication_is_on_its_grid() -> None:
    """Of a linear layer: x, w and the gradient, each seen where PyTorch's own function gets it."""
    model = prepare(
        nn.Sequential(nn.Linear(6, 5, bias=False), nn.Linear(5, 4, bias=False)),
        rules({"layers": "1", "activation": "flexfp8_e4m3", "weight": "power_of_two_4", "gradient": "bfloat16"}),
    )
    x = torch.randn(7, 6, generator=torch.Generator().manual_seed(1), requires_grad=True)
    model.eval()
    hidden = model[0](x)
    read = round_to_grid(hidden.detach(), format_of("flexfp8_e4m3").grid, "nearest_even")
    powers = quantizers_of(model)["1", "weight"](model[1].weight).detach()
    assert ((powers == 0) | (powers.abs().log2() % 1 == 0)).all()
    out = model(x)
    assert torch.equal(out, functional.linear(read, powers))
    gradient = torch.randn(7, 4, generator=torch.Generator().manual_seed(2))
    out.backward(gradient)
    rounded = round_to_grid(gradient, format_of("bfloat16").grid, "nearest_even")
    assert torch.equal(model[1].weight.grad, rounded.T @ read)
    assert torch.equal(x.grad, rounded @ powers @ model[0].weight)


def test_training_goes_on_as_before_and_learns() -> None:
    """Close to float32, with an optimizer that was made before."""
    losses = []
    for prepared in (False, True):
        model = network()
        optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
        if prepared:
            prepare(model, rules(INT8))
        losses.append([step(model, optimizer) for _ in range(30)])
    assert losses[0][-1] < 0.8 * losses[0][0]
    np.testing.assert_allclose(losses[1], losses[0], rtol=0.05)
    model.eval()
    assert torch.equal(model(batch()), model(batch()))


def test_a_saved_network_and_an_interrupted_training_go_on_with_the_same_bits(tmp_path: Path) -> None:
    def start() -> tuple[Any, Any]:
        model = prepare(network(), rules(INT8, seed=5))
        return model, torch.optim.SGD(model.parameters(), 0.1)

    model, optimizer = start()
    for _ in range(3):
        step(model, optimizer)
    torch.save([model.state_dict(), optimizer.state_dict()], tmp_path / "saved.pt")
    again, again_optimizer = start()
    states = torch.load(tmp_path / "saved.pt", weights_only=True)
    again.load_state_dict(states[0])
    again_optimizer.load_state_dict(states[1])
    for _ in range(3):
        assert step(model, optimizer) == step(again, again_optimizer)
    copied = copy.deepcopy(model)
    assert torch.equal(copied(batch()), model(batch()))
    assert torch.equal(copied.simulation_counter, model.simulation_counter)
    copied(batch())
    assert not torch.equal(copied.simulation_counter, model.simulation_counter)


def test_two_seeds_round_otherwise() -> None:
    outputs = [prepare(network(), rules(INT8, seed=seed))(batch()) for seed in (1, 2, 1)]
    assert torch.equal(outputs[0], outputs[2])
    assert not torch.equal(outputs[0], outputs[1])


def test_the_optimizer_reads_rounded_gradients() -> None:
    model = prepare(
        network(), rules({"layers": "5", "weight_gradient": "flexfp8_e4m3_shared"}, rounding={"training": "half_up"})
    )
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    step(model, optimizer)
    gradient = model[5].weight.grad
    scaled = gradient / 2.0 ** (torch.floor(torch.log2(gradient.abs().max())) - 8)
    assert torch.equal(scaled, round_to_grid(scaled, format_of("flexfp8_e4m3").grid, "nearest_even"))
    other = model[0].weight.grad
    assert other.unique().numel() > 200


@pytest.mark.gate("4 s: torch.export")
def test_exported() -> None:
    model = prepare(network(), rules(INT8))
    model(batch())
    model.eval()
    with torch.no_grad():
        expected = model(batch())
        found = torch.export.export(model, (batch(),)).module()(batch())
    torch.testing.assert_close(found, expected)


@pytest.mark.gate("8 s: torch.compile")
def test_compiled_in_training() -> None:
    """In one graph, forward and backward; the same gradients."""
    gradients = []
    for compiled in (False, True):
        model = prepare(network(), rules(INT8))
        run = torch.compile(model, backend="aot_eager", fullgraph=True) if compiled else model
        for _ in range(2):
            model.zero_grad()
            run(batch()).square().sum().backward()
        gradients.append([parameter.grad for parameter in model.parameters()])
    for eager, other in zip(*gradients, strict=True):
        torch.testing.assert_close(eager, other)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            rules({"layers": "conv*", "weight": "int8"}),
            r"rule 1 \(conv\*\) matches no layer, expected a pattern .* 0, 5",
        ),
        (rules(INT8, INT8 | {"weight": "int9"}), "the rules: rules.1.weight: found the format 'int9', expected one of"),
        (rules(INT8 | {"weigth": "int8"}), "rules.0.weigth: there is no such entry"),
        (rules(INT8 | {"weight": {"kind": "flexfp", "exponent": 9, "mantissa": 1}}), "exponent: .* less than or equal"),
        (rules(INT8 | {"weight": {"kind": "flexfp", "exponent": 8, "mantissa": 7}}), "does not fit into float32"),
        (rules(INT8, rounding={"evaluation": "stochastic"}), "stochastic is for training only"),
        (rules(), "rules: .*at least 1"),
    ],
)
def test_what_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(SimulateError, match=message):
        prepare(network(), given)


def test_a_file_is_named_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text("rules:\n  - layers: '*'\n    weight: int8\n  - layers: fc\n    gradient: e5m2\n")
    with pytest.raises(SimulateError, match=rf"{file} line 5: rules.1.gradient: found the format 'e5m2'"):
        load_rules(file)
    file.write_text("rules:\n  - layers: '*'\n    weight: int8\n  - layers: fc\n    gradient: bfloat16\n")
    with pytest.raises(SimulateError, match=rf"{file} line 4: rule 2 \(fc\) matches no layer, .* 0, 5"):
        prepare(network(), file)
    file.write_text("rules: [\n")
    with pytest.raises(SimulateError, match="is not valid YAML"):
        load_rules(file)
    with pytest.raises(SimulateError, match="cannot be read"):
        load_rules(tmp_path / "none.yaml")


def test_the_last_rule_counts_role_by_role_and_a_network_is_prepared_once() -> None:
    model = prepare(network(), rules(INT8, {"layers": "5", "weight": "float32", "gradient": "bfloat16"}))
    found = {place: quantizer.kind for place, quantizer in quantizers_of(model).items()}
    assert set(found) == {(n, r) for n in ("0", "5") for r in ("activation", "weight", "gradient")} - {("5", "weight")}
    assert found["5", "gradient"] == format_of("bfloat16")
    with pytest.raises(SimulateError, match="prepared already"):
        prepare(model, rules(INT8))


def test_an_activation_that_was_never_observed() -> None:
    model = prepare(network(), rules(INT8)).eval()
    with pytest.raises(SimulateError, match="never observed"):
        model(batch())


def test_a_batch_without_images() -> None:
    model = prepare(nn.Sequential(nn.Linear(4, 3)), rules(INT8))
    model(torch.zeros(0, 4)).sum().backward()
    assert model[0].weight.grad.abs().sum() == 0


def test_observers() -> None:
    """The range only widens, or follows slowly."""
    for observer, expected in (("min_max", [-4.0, 3.0]), ("moving_average", [-1.0 - 0.1 * 3, 3.0 - 0.1 * 2])):
        kind = {"kind": "int", "bits": 8, "observer": observer}
        model = prepare(nn.Sequential(nn.Linear(2, 1)), rules({"layers": "0", "activation": kind}))
        model(torch.tensor([[-1.0, 3.0]]))
        model(torch.tensor([[-4.0, 1.0]]))
        (quantizer,) = quantizers_of(model).values()
        np.testing.assert_allclose(quantizer.ends[0].tolist(), expected, rtol=1e-6)


def test_autocast_goes_on_as_before() -> None:
    """bfloat16 arrives at the quantizers (it was read as float32, beyond its end); the layers cast as without rules."""
    entry = {**INT8, "weight_gradient": "bfloat16"}
    model = prepare(nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 3), nn.Flatten()), rules(entry))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    seen: list[Any] = []
    model[2].register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].detach()))
    with torch.autocast("cpu", torch.bfloat16):
        y = model(batch())
        loss = y.float().square().mean()
    loss.backward()
    optimizer.step()
    assert y.dtype == torch.bfloat16
    assert all(p.grad is not None and p.grad.dtype == torch.float32 for p in model.parameters())
    activation = quantizers_of(model)["2", "activation"]
    scale = activation.trained_scales().scale
    steps = seen[0] / scale
    assert seen[0].dtype == torch.float32
    assert torch.equal(torch.round(steps) * scale, seen[0])


def test_a_network_in_bfloat16_stays_in_bfloat16() -> None:
    model = prepare(nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 4)).bfloat16(), rules(INT8))
    y = model(torch.randn(7, 6, dtype=torch.bfloat16))
    y.sum().backward()
    assert y.dtype == torch.bfloat16
    assert all(p.grad is not None and p.grad.dtype == torch.bfloat16 for p in model.parameters())


def test_a_layer_may_be_called_by_name() -> None:
    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 3)

        def forward(self, x: Any) -> Any:
            return self.layer(input=x)

    model = prepare(Named(), rules({"layers": "*", "activation": {"kind": "fixed", "bits": 4, "fraction": 1}}))
    x = torch.tensor([[0.2, 0.3, 9.0, -9.0]])
    with torch.no_grad():
        found = model.eval()(x)
        assert torch.equal(found, functional.linear(torch.tensor([[0.0, 0.5, 3.5, -4.0]]), *model.layer.parameters()))


@pytest.mark.parametrize("norm", [parametrizations.weight_norm, parametrizations.spectral_norm])
def test_other_parametrizations_come_first(norm: Any) -> None:
    """What they make of the weights is rounded."""
    model = prepare(nn.Sequential(norm(nn.Linear(6, 5)), nn.ReLU(), norm(nn.Linear(5, 4))), rules(INT8))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.randn(7, 6)).square().sum().backward()
        optimizer.step()
    model.eval()
    before = model[0].weight.detach()
    weight = quantizers_of(model)["0", "weight"](before)
    step = before.abs().amax(1, keepdim=True) / 127
    assert torch.allclose(weight / step, (before / step).round(), atol=1e-3)
    assert (weight / step).round().unique().numel() > 10


def lazy() -> Any:
    return nn.Sequential(nn.LazyLinear(4))


def pruned() -> Any:
    model = nn.Sequential(nn.Linear(6, 5))
    prune.l1_unstructured(model[0], "weight", 0.5)
    return model


def normalized() -> Any:
    return nn.Sequential(parametrizations.weight_norm(nn.Linear(6, 5)))


@pytest.mark.parametrize(
    ("make", "rule", "message"),
    [
        (lazy, INT8, "layer 0 has no weights yet, expected a network that has run once"),
        (
            pruned,
            INT8,
            r"the weights of layer 0 are no parameter, as pruning leaves them and .*, expected that it is made "
            r"permanent \(prune\.remove\), or one of torch\.nn\.utils\.parametrizations",
        ),
        (
            normalized,
            INT8 | {"weight_gradient": "bfloat16"},
            "the weights of layer 0 are made of 2 parameters, expected one, or no format for weight_gradient",
        ),
    ],
)
def test_weights_that_cannot_be_rounded(make: Any, rule: dict[str, Any], message: str) -> None:
    with pytest.raises(SimulateError, match=message):
        prepare(make(), rules(rule))


CHANNELS = {"kind": "int", "bits": 8, "symmetric": True, "per_channel": True}


@pytest.mark.parametrize(
    ("layer", "shape", "axes"),
    [
        (lambda: nn.Conv2d(8, 8, 3, groups=8), (2, 8, 6, 5), (1, 0)),
        (lambda: nn.ConvTranspose2d(8, 4, 3), (2, 8, 6, 5), (1, 1)),
        (lambda: nn.ConvTranspose1d(8, 4, 3), (2, 8, 9), (1, 1)),
        (lambda: nn.ConvTranspose3d(8, 4, 2), (2, 8, 3, 4, 5), (1, 1)),
        (lambda: nn.Conv2d(8, 4, 3), (8, 6, 5), (0, 0)),
        (lambda: nn.Conv1d(6, 5, 3), (2, 6, 9), (1, 0)),
        (lambda: nn.Linear(6, 5), (2, 7, 6), (2, 0)),
        (lambda: nn.Linear(6, 5), (6,), (0, 0)),
    ],
    ids=["depthwise", "transposed", "transposed 1d", "transposed 3d", "unbatched", "1d", "sequence", "vector"],
)
def test_each_channel_has_its_own_scale(layer: Any, shape: tuple[int, ...], axes: tuple[int, int]) -> None:
    """Along axes[0] of what it reads, axes[1] of its weights: each channel's greatest magnitude is 127 steps of it."""
    model = prepare(nn.Sequential(layer()), rules({"layers": "*", "activation": CHANNELS, "weight": CHANNELS}))
    x = torch.randn(shape, generator=torch.Generator().manual_seed(3))
    seen: list[Any] = []
    model[0].register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].detach()))
    model(x).sum().backward()
    weight = model[0].weight.detach()
    rounded = quantizers_of(model)["0", "weight"](weight)
    for found, given, axis in ((seen[0], x, axes[0]), (rounded, weight, axes[1])):
        steps = given.transpose(0, axis).flatten(1).abs().amax(1) / 127 if given.ndim > 1 else given.abs() / 127
        numbers = (found.transpose(0, axis).flatten(1) if given.ndim > 1 else found[:, None]) / steps[:, None]
        assert torch.allclose(numbers, numbers.round(), atol=1e-3)
        assert torch.equal(numbers.round().abs().amax(1), torch.full((len(steps),), 127.0))


@pytest.mark.parametrize("kind", [nn.Embedding, nn.EmbeddingBag])
def test_the_rows_of_an_embedding_are_rounded_and_indices_are_not(kind: Any) -> None:
    torch.manual_seed(1)
    model = prepare(nn.Sequential(kind(9, 4)), rules(INT8 | {"weight": CHANNELS}))
    assert {role for _, role in quantizers_of(model)} == {"weight", "gradient"}
    x = torch.tensor([[0, 8, 3], [1, 1, 7]])
    model(x).sum().backward()
    steps = model[0].weight.abs().amax(0) / 127
    numbers = model.eval()[:1](x) / steps
    whole = numbers if kind is nn.Embedding else 3 * numbers  # the mean of three
    assert torch.allclose(whole, whole.round(), atol=1e-3)


def test_blocks_lie_along_what_is_summed() -> None:
    """Of a sequence the features, of a transposed convolution's weights axis 0."""
    entry = {
        "layers": "*",
        "activation": {"kind": "block", "element": {"kind": "fixed", "bits": 8, "fraction": 6}, "size": 4},
    }
    model = prepare(nn.Sequential(nn.Linear(8, 3)), rules(entry)).eval()
    x = torch.tensor([1.0, 1.0, 1.0, 1.0, 100.0, 100.0, 100.0, 1.0]).repeat(2, 5, 1)
    seen: list[Any] = []
    model[0].register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].detach()))
    model(x)
    assert torch.equal(seen[0][..., :4], x[..., :4])
    assert torch.equal(seen[0][..., 4:], torch.tensor([100.0, 100.0, 100.0, 1.0]).expand(2, 5, 4))
    quantizer = quantizers_of(
        prepare(nn.Sequential(nn.ConvTranspose2d(8, 4, 3)), rules({"layers": "*", "weight": "mxfp8_e4m3"}))
    )["0", "weight"]
    assert quantizer._axis == 0
