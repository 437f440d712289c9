"""Ranges by percentile and by the least mean squared error, beside NumPy's percentile and a search by brute force."""

import copy
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgemeta.kernels.simulate.library import BINS
from edgemeta.toolchain.errors import SimulateError
from edgemeta.toolchain.number_formats.formats import Integer, format_of

torch = pytest.importorskip("torch", reason="PyTorch is not installed (pip install 'edgemeta[train]')")

from torch import nn  # noqa: E402

from edgemeta.toolchain.simulate.observers import (  # noqa: E402
    histogram,
    histogram_by_definition,
    range_of_channels,
    range_of_histogram,
)
from edgemeta.toolchain.simulate.prepare import prepare, quantizers_of  # noqa: E402

Floats = NDArray[np.float32]


def data(name: str, count: int = 40_000) -> Floats:
    rng = np.random.default_rng(1)
    normal = rng.normal(size=count)
    match name:
        case "normal":
            return normal.astype(np.float32)
        case "positive, half zero":
            return np.maximum(normal, 0).astype(np.float32)
        case "negative":
            return -np.abs(normal + 3).astype(np.float32)
        case "long tails":
            return rng.standard_t(2, count).astype(np.float32)
        case _:
            return np.concatenate([normal, [900, -3, 0, -0.0, 1e-42]]).astype(np.float32)


OBSERVERS: tuple[Any, ...] = ("percentile", "mean_squared_error")
NAMES = ("normal", "positive, half zero", "negative", "long tails", "an outlier")


def from_histogram(x: Floats, kind: Integer) -> list[float]:
    found: list[float] = range_of_histogram(
        histogram(torch.from_numpy(x)), kind.model_dump_json(exclude_defaults=True)
    )[0].tolist()
    return found


def exact(x: Floats, kind: Integer) -> list[float]:
    found: list[float] = range_of_channels(torch.from_numpy(x)[None], kind.model_dump_json(exclude_defaults=True))[
        0
    ].tolist()
    return found


def error_of(x: Floats, ends: list[float], kind: Integer) -> float:
    """Mean squared error of integers that cover a range, in NumPy alone, with the format's float32 scale."""
    least, greatest = min(np.float32(ends[0]), np.float32(0)), max(np.float32(ends[1]), np.float32(0))
    low, high = -(2 ** (kind.bits - 1)) + kind.symmetric, 2 ** (kind.bits - 1) - 1
    zero = np.float32(0)
    if kind.symmetric:
        scale = max(-least, greatest) / np.float32(high)
    else:
        scale = (greatest - least) / np.float32(high - low)
        zero = np.clip(np.floor(np.float32(low) - least / scale + np.float32(0.5)), low, high)
    q = np.clip(np.rint(x / scale), low - zero, high - zero)
    return float(np.mean(np.square((q * scale).astype(np.float64) - x.astype(np.float64))))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("percentile", [60.0, 99.0, 99.99, 100.0])
def test_percentile(name: str, percentile: float) -> None:
    """Exact of weights; of a histogram within 1 / 64 outwards, and outside of it lie as few as allowed."""
    x, kind = data(name), Integer(bits=8, observer="percentile", percentile=percentile)
    expected = np.percentile(x, [100 - percentile, percentile], method="inverted_cdf")
    outside = int(len(x) * (100 - percentile) / 100 + 1e-6)
    ordered = np.sort(x)
    assert exact(x, kind) == [ordered[outside], ordered[len(x) - 1 - outside]]
    np.testing.assert_allclose(exact(x, kind), expected, rtol=1e-3, atol=1e-3)  # NumPy's share is one element off
    least, greatest = from_histogram(x, kind)
    for found, end, outwards in ((least, ordered[outside], -1), (greatest, ordered[len(x) - 1 - outside], 1)):
        assert 0 <= (found - end) * outwards <= abs(end) / 64 + 1e-38
    assert (x < least).sum() <= outside
    assert (x > greatest).sum() <= outside


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("bits", "symmetric"), [(8, False), (4, True), (2, False)])
def test_least_mean_squared_error(name: str, bits: int, symmetric: bool) -> None:
    """No fraction of the range does better: exactly for weights, by 1 % for a histogram of 1 / 64."""
    x, kind = data(name), Integer(bits=bits, symmetric=symmetric, observer="mean_squared_error")
    ends = [float(x.min()), float(x.max())]
    errors = [error_of(x, [end * k / 100 for end in ends], kind) for k in range(1, 101)]
    assert error_of(x, exact(x, kind), kind) == min(errors)
    assert error_of(x, from_histogram(x, kind), kind) <= 1.01 * min(errors)
    if name == "long tails" and bits == 4:
        assert min(errors) < 0.6 * errors[-1]  # of the whole range


def test_every_channel_of_weights_has_its_own_range() -> None:
    x = np.stack([data(name, 500)[:500] for name in NAMES])
    for observer in OBSERVERS:
        kind = Integer(bits=4, symmetric=True, per_channel=True, observer=observer)
        found = range_of_channels(torch.from_numpy(x), kind.model_dump_json(exclude_defaults=True)).tolist()
        assert found == [exact(row, kind) for row in x]


def test_elements_that_are_not_finite_do_not_count() -> None:
    x = data("normal")
    spoilt = np.concatenate([x, np.full(3000, np.inf), [np.nan, -np.inf]]).astype(np.float32)
    empty = np.array([np.nan, np.inf], np.float32)
    for observer in OBSERVERS:
        kind = Integer(bits=8, observer=observer)
        assert from_histogram(spoilt, kind) == from_histogram(x, kind)
        assert exact(spoilt, kind) == exact(x, kind)
        assert from_histogram(empty, kind) == exact(empty, kind) == [0.0, 0.0]
    greatest = np.array([3.4028235e38, -3.4028235e38, 0], np.float32)
    assert from_histogram(greatest, Integer(bits=8, observer="percentile")) == [greatest[1], greatest[0]]


@pytest.mark.parametrize("name", NAMES)
def test_the_librarys_counts_are_those_of_the_definition(name: str) -> None:
    x = torch.from_numpy(data(name)[:40_000])
    x[::97], x[1::97], x[2::97] = torch.nan, torch.inf, -torch.inf
    for each in (x, x.reshape(100, 4, -1, 10)[..., :7], x.reshape(10, 4, 10, -1).to(memory_format=torch.channels_last)):
        assert torch.equal(histogram(each), histogram_by_definition(each))


def test_bins_are_in_the_order_of_their_values() -> None:
    x = np.sort(data("long tails"))
    places = [int(histogram(torch.tensor([value])).nonzero()) for value in x[::200].tolist()]
    assert places == sorted(places)
    counts = histogram(torch.from_numpy(x))
    assert counts.shape == (BINS,)
    assert counts.sum() == len(x)


@pytest.mark.parametrize("observer", OBSERVERS)
def test_an_activation_is_observed_over_all_steps_and_saved(observer: Any) -> None:
    kind = {"kind": "int", "bits": 8, "observer": observer}
    rules = {"rules": [{"layers": "0", "activation": kind, "weight": kind}]}
    x = torch.from_numpy(data("long tails").reshape(10, 2000, 2))

    def start() -> Any:
        torch.manual_seed(1)
        return prepare(nn.Sequential(nn.Linear(2, 3)), rules)

    model, other = start(), start()
    for batch in x:
        model(batch)
    other(x.reshape(-1, 2))
    quantizer = quantizers_of(model)["0", "activation"]
    expected = from_histogram(data("long tails"), Integer(bits=8, observer=observer))
    assert quantizer.ends[0].tolist() == expected == quantizers_of(other)["0", "activation"].ends[0].tolist()
    again = start()
    again.load_state_dict(model.state_dict())
    model(x[0])
    again(x[0])
    assert torch.equal(quantizer.histogram, quantizers_of(again)["0", "activation"].histogram)
    assert torch.equal(model.eval()(x[0]), again.eval()(x[0]))


def test_a_gradient_is_observed_at_each_step() -> None:
    kind = {"kind": "int", "bits": 8, "observer": "percentile", "percentile": 90}
    rules = {"rules": [{"layers": "0", "gradient": kind}], "rounding": {"training": "nearest_even"}}
    model: Any = prepare(nn.Sequential(nn.Linear(2, 2, bias=False)), rules)
    gradient = torch.from_numpy(data("long tails").reshape(-1, 2))
    model(torch.eye(2).repeat(len(gradient) // 2, 1)).backward(gradient)
    ends = from_histogram(data("long tails"), Integer(**{**kind, "kind": "int"}))  # type: ignore[arg-type]
    rounded = gradient.numpy().clip(*ends).reshape(-1, 2, 2).sum(0).T
    found = model[0].weight.grad.numpy()
    np.testing.assert_allclose(found, rounded, rtol=0.05, atol=abs(rounded).max() * 0.05)
    assert abs(found - gradient.numpy().reshape(-1, 2, 2).sum(0).T).max() > 0.2 * abs(rounded).max()


@pytest.mark.gate("10 s: torch.compile and torch.export")
def test_compiled_and_exported() -> None:
    """In one graph, forward and backward."""
    torch.manual_seed(1)
    kinds = [{"kind": "int", "bits": 8, "observer": observer} for observer in OBSERVERS]
    rule = {"layers": "*", "activation": kinds[0], "weight": kinds[1], "gradient": kinds[0]}
    start, x, gradients = nn.Linear(3, 2), torch.randn(16, 3), []
    for compiled in (False, True):
        model = prepare(nn.Sequential(copy.deepcopy(start)), {"rules": [rule]})
        run: Any = torch.compile(model, backend="aot_eager", fullgraph=True) if compiled else model
        for _ in range(2):
            run(x).square().sum().backward()
        gradients.append([parameter.grad for parameter in model.parameters()])
    for eager, other in zip(*gradients, strict=True):
        torch.testing.assert_close(eager, other)
    with torch.no_grad():
        expected = model.eval()(x)
        torch.testing.assert_close(torch.export.export(model, (x,)).module()(x), expected)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"observer": "percentile", "per_channel": True}, "rules.0.activation: an activation .* one range"),
        ({"observer": "percentile", "percentile": 50}, "percentile: Input should be greater than 50"),
        ({"percentile": 99.0}, "`percentile` belongs to `observer: percentile`, found `observer: min_max`"),
        ({"observer": "median"}, "observer: Input should be 'min_max', 'moving_average', 'percentile' or"),
    ],
)
def test_what_is_refused(fields: dict[str, Any], message: str) -> None:
    rules = {"rules": [{"layers": "*", "activation": {"kind": "int", "bits": 8, **fields}}]}
    with pytest.raises(SimulateError, match=message):
        prepare(nn.Sequential(nn.Linear(2, 1)), rules)
    assert format_of("int8") == Integer(bits=8)
