"""Sums of integer products in few bits, beside NumPy's int64 loops."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgemeta.toolchain.errors import SimulateError

torch = pytest.importorskip("torch", reason="PyTorch is not installed (pip install 'edgemeta[train]')")

from torch import nn  # noqa: E402

from edgemeta.toolchain.simulate.prepare import accumulations_of, prepare, quantizers_of  # noqa: E402
from edgemeta.toolchain.simulate.report import as_text, report  # noqa: E402

Integers = NDArray[np.int64]
FIXED = {"kind": "fixed", "bits": 8, "fraction": 4}


def rules(bits: int, overflow: str, activation: Any = "int8", weight: Any = "int8_per_channel") -> dict[str, Any]:
    accumulator = {"bits": bits, "overflow": overflow}
    return {"rules": [{"layers": "*", "activation": activation, "weight": weight, "accumulator": accumulator}]}


def held(total: int, bits: int, overflow: str) -> int:
    """One sum in an accumulator, by its definition in words."""
    least, greatest = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    if overflow == "saturate":
        return min(max(total, least), greatest)
    lowest_bits = total % 2**bits
    return lowest_bits if lowest_bits <= greatest else lowest_bits - 2**bits


def conv_sums(x: Integers, w: Integers, layer: Any) -> Integers:
    """Sums of a 2-d convolution with zero padding on both sides, one after the other."""
    (top, left), (down, right), (rows, columns) = layer.padding, layer.stride, layer.dilation
    x = np.pad(x, ((0, 0), (0, 0), (top, top), (left, left)))
    height = (x.shape[2] - rows * (w.shape[2] - 1) - 1) // down + 1
    width = (x.shape[3] - columns * (w.shape[3] - 1) - 1) // right + 1
    part, outputs = w.shape[1], len(w) // layer.groups
    found = np.zeros((len(x), len(w), height, width), np.int64)
    for o, i, j in np.ndindex(len(w), height, width):
        first = o // outputs * part
        window = x[:, first : first + part, i * down :, j * right :]
        window = window[:, :, : rows * w.shape[2] : rows, : columns * w.shape[3] : columns]
        found[:, o, i, j] = (window * w[o]).sum((1, 2, 3))
    return found


def operands(model: Any, x: Any) -> tuple[Integers, float, Integers, NDArray[np.float64]]:
    """Integers and steps of what layer 0 reads in evaluation, and of its weights."""
    found = quantizers_of(model)
    (q, step), (w, steps) = (
        found["0", "activation"].integers(x),
        found["0", "weight"].integers(model[0].weight.detach()),
    )
    return q.numpy(), float(step), w.numpy(), steps.numpy()


def expected(model: Any, x: Any, sums: Callable[..., Integers], bits: int, overflow: str) -> tuple[Any, float]:
    """The layer's output, and the share of sums that overflow."""
    q, step, w, steps = operands(model, x)
    whole = sums(q, w, model[0])
    kept = np.vectorize(lambda total: held(int(total), bits, overflow), otypes=[np.int64])(whole)
    shape = [1, -1] + [1] * (whole.ndim - 2)
    bias = model[0].bias.detach().numpy().reshape(shape)
    return (kept * (step * steps).reshape(shape)).astype(np.float32) + bias, float((kept != whole).mean())


@pytest.mark.parametrize("overflow", ["wrap", "saturate"])
@pytest.mark.parametrize(
    ("layer", "formats"),
    [
        (lambda: nn.Conv2d(4, 6, 3, padding=1, stride=2), ("int8", "int8_per_channel")),
        (lambda: nn.Conv2d(4, 6, 3, padding=(2, 1), dilation=(2, 1), groups=2), ("int8_symmetric", "int4")),
        (lambda: nn.Conv2d(4, 4, 3, groups=4), (FIXED, "power_of_two_4")),
        (lambda: nn.Conv2d(4, 6, (1, 3), stride=(2, 1)), ("power_of_two_5", FIXED)),
        (lambda: nn.Conv2d(4, 6, 3), ({"kind": "int", "bits": 16}, {"kind": "int", "bits": 12, "symmetric": True})),
    ],
)
def test_convolutions(layer: Callable[[], Any], formats: tuple[Any, Any], overflow: str) -> None:
    """Of widths from none to all overflowing; the last one has sums that float32 does not hold."""
    torch.manual_seed(1)
    x = torch.randn(2, 4, 7, 6)
    start = layer()
    shares = []
    for bits in (1, 5, 9, 12, 20, 32):
        model = prepare(nn.Sequential(copy.deepcopy(start)), rules(bits, overflow, *formats))
        model(x)
        found = model.eval()(x)
        output, share = expected(model, x, conv_sums, bits, overflow)
        np.testing.assert_array_equal(found.detach().numpy(), output)
        row = report(model, [x])[-1]
        assert (row.role, row.limited) == ("accumulator", share)
        shares.append(share)
    assert shares[0] > 0.5
    assert max(shares[1:-1]) > 0
    assert shares[-1] == 0


@pytest.mark.parametrize("overflow", ["wrap", "saturate"])
def test_linear_layers(overflow: str) -> None:
    torch.manual_seed(1)
    x = torch.randn(3, 5, 40)
    start = nn.Linear(40, 7)
    for bits in (4, 12, 14, 32):
        model = prepare(nn.Sequential(copy.deepcopy(start)), rules(bits, overflow))
        model(x)
        found = model.eval()(x).reshape(-1, 7).detach().numpy()
        wanted, _ = expected(model, x.reshape(-1, 40), lambda q, w, _: q @ w.T, bits, overflow)
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
def test_sums_that_fit_are_those_of_float32() -> None:
    torch.manual_seed(1)
    x = torch.randn(2, 3, 9, 9)
    for layer in (
        nn.Conv2d(3, 4, 3, padding="same", padding_mode="reflect"),
        nn.Conv2d(3, 4, 4, padding="same"),
        nn.Conv2d(3, 4, 3, padding=1, padding_mode="circular"),
    ):
        plain = {"rules": [{"layers": "*", "activation": "int8", "weight": "int8_per_channel"}]}
        outputs = [
            prepare(nn.Sequential(copy.deepcopy(layer)), given)(x) for given in (rules(24, "wrap"), plain | {"seed": 0})
        ]
        torch.testing.assert_close(*outputs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("overflow", ["wrap", "saturate"])
def test_the_gradient_ends_where_a_sum_saturated(overflow: str) -> None:
    torch.manual_seed(1)
    x, start = torch.randn(2, 4, 7, 6), nn.Conv2d(4, 6, 3)
    given = rules(14, overflow) | {"rounding": {"training": "nearest_even"}}
    model: Any = prepare(nn.Sequential(copy.deepcopy(start)), given)
    out = model(x)
    gradient = torch.randn(out.shape)
    out.backward(gradient)
    plain: Any = prepare(
        nn.Sequential(copy.deepcopy(start)),
        {"rules": [{"layers": "*", "activation": "int8", "weight": "int8_per_channel"}]}
        | {"rounding": {"training": "nearest_even"}},
    )
    q, _, w, _ = operands(model, x)
    whole = conv_sums(q, w, start)
    inside = torch.from_numpy((whole >= -8192) & (whole < 8192))
    assert 0.1 < inside.to(torch.float32).mean() < 0.9
    plain(x).backward(gradient * inside if overflow == "saturate" else gradient)
    for (name, parameter), other in zip(model.named_parameters(), plain.parameters(), strict=True):
        assert torch.equal(parameter.grad, other.grad), name


def test_saved_copied_and_nan() -> None:
    """An accumulator has no state; a copied network has its own; NaN stays."""
    torch.manual_seed(1)
    x = torch.randn(2, 4, 7, 6)
    model = prepare(nn.Sequential(nn.Conv2d(4, 6, 3)), rules(10, "saturate"))
    model(x)
    other = prepare(nn.Sequential(nn.Conv2d(4, 6, 3)), rules(10, "saturate"))
    other.load_state_dict(model.state_dict())
    copied = copy.deepcopy(model)
    assert accumulations_of(copied)["0"] is not accumulations_of(model)["0"]
    outputs = [each.eval()(x) for each in (model, other, copied)]
    assert torch.equal(outputs[0], outputs[1])
    assert torch.equal(outputs[0], outputs[2])
    x[0, 0, 3, 3] = torch.nan
    found = model(x)
    assert found[0].isnan().any()
    assert torch.equal(found[1], outputs[0][1])
    assert "accumulator(bits=10, overflow=saturate)" in as_text(report(model, [x]))


def test_channels_that_lie_last_and_autocast() -> None:
    """Under autocast the layer gives bfloat16: the same sums, rounded once more."""
    torch.manual_seed(1)
    x = torch.randn(2, 4, 7, 6)
    model = prepare(nn.Sequential(nn.Conv2d(4, 6, 3)), rules(10, "wrap"))
    model(x)
    plain = model.eval()(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(model(x), plain.to(torch.bfloat16))
    found = model.to(memory_format=torch.channels_last)(x.to(memory_format=torch.channels_last))
    assert found.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(found, plain)


@pytest.mark.gate("10 s: torch.compile and torch.export")
def test_compiled_and_exported() -> None:
    torch.manual_seed(1)
    x, start = torch.randn(2, 4, 7, 6), nn.Conv2d(4, 6, 3)
    gradients = []
    for compiled in (False, True):
        model: Any = prepare(nn.Sequential(copy.deepcopy(start)), rules(12, "saturate"))
        run = torch.compile(model, backend="aot_eager", fullgraph=True) if compiled else model
        for _ in range(2):
            model.zero_grad()
            run(x).square().sum().backward()
        gradients.append([parameter.grad for parameter in model.parameters()])
    for eager, other in zip(*gradients, strict=True):
        torch.testing.assert_close(eager, other)
    model.eval()
    with torch.no_grad():
        expected_output = model(x)
        torch.testing.assert_close(torch.export.export(model, (x,)).module()(x), expected_output)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"activation": "bfloat16"}, "layer '0' has an accumulator of integers, but its activation is bfloat16"),
        ({"activation": "int8_per_channel"}, "its activation is int8_per_channel, expected `int` that is not per chan"),
        ({"weight": "flexfp8_e4m3"}, "its weight is flexfp8_e4m3, expected `int`, `fixed` or `power_of_two`"),
        ({"weight": "float32"}, "its weight is float32"),
        (
            {"activation": FIXED | {"bits": 24}, "weight": FIXED | {"bits": 24}},
            r"the sums of layer '0' can be as great as .*, expected formats of fewer bits",
        ),
        ({"accumulator": {"bits": 33, "overflow": "wrap"}}, "bits: Input should be less than or equal to 32"),
        ({"accumulator": {"bits": 16}}, "found the accumulator .*expected `float32`, or .*: overflow: Field required"),
        ({"accumulator": "int16"}, "found the accumulator 'int16', expected `float32`, or `bits` and `overflow`"),
    ],
)
def test_what_is_refused(entry: dict[str, Any], message: str, tmp_path: Path) -> None:
    import yaml

    given = {"activation": "int8", "weight": "int8", "accumulator": {"bits": 16, "overflow": "wrap"}, **entry}
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"rules": [{"layers": "*", "gradient": "int8"}, {"layers": "0", **given}]}))
    line = next(n for n, text in enumerate(file.read_text().splitlines(), 1) if "accumulator" in text)
    with pytest.raises(SimulateError, match=rf"{file} line {line}: .*{message}"):
        prepare(nn.Sequential(nn.Conv2d(16, 6, 3)), file)


def test_a_layer_that_no_accumulator_is_for() -> None:
    transposed = nn.Sequential(nn.ConvTranspose2d(4, 6, 3))
    with pytest.raises(SimulateError, match="layer '0' is a ConvTranspose2d, expected a convolution or a linear"):
        prepare(transposed, rules(16, "wrap"))
    entries = rules(16, "wrap")["rules"] + [{"layers": "1", "activation": "bfloat16", "accumulator": "float32"}]
    model = prepare(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)), {"rules": entries})
    assert list(accumulations_of(model)) == ["0"]


@pytest.mark.parametrize("above", [1, 2**23 + 1, 2**24 - 1])
def test_sums_that_float32_would_round_are_exact(above: int) -> None:
    """2**24 and more, and odd: the lowest bit of 24 tells."""
    from edgemeta.toolchain.simulate.accumulate import held_sums

    total = 2**24 + above
    x, one = torch.tensor([[4096.0, 1.0]]), torch.ones(1)
    weights = torch.tensor([[float(total // 4096), float(total % 4096)]])
    for bits, overflow in ((24, "wrap"), (26, "wrap"), (25, "saturate")):
        y, inside = held_sums(
            torch.zeros(1, 1), x, one, weights, one, None, [], [], [], 1, bits, overflow == "saturate"
        )
        wanted = held(total, bits, overflow)
        assert y.item() == np.float32(wanted)
        assert inside.item() == (wanted == total)
