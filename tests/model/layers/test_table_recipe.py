"""Tables from recipes: the nearest integers by an oracle of 50 digits, the same bytes everywhere, and their proofs."""

import hashlib
from collections.abc import Callable
from dataclasses import replace
from decimal import ROUND_FLOOR, Decimal, localcontext
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import floats, integers
from numpy.typing import NDArray

from edgemeta.model.errors import ModelError
from edgemeta.model.file import decode, encode
from edgemeta.model.graph import Model
from edgemeta.model.layers import Lookup, TableRecipe, TensorType
from edgemeta.model.layers.exact_functions import EXACT, evaluate_exactly
from edgemeta.model.prove import MAX_RECIPES
from tests.conformance.networks import NetworkBuilder

OUT = TensorType((4, 5, 3), zero_point=-100, scale=0.05)
ONE = Decimal(1)


def _clipped(x: Decimal, low: float, high: float) -> Decimal:
    return min(max(x, Decimal(low)), Decimal(high))


def _sigmoid(x: Decimal) -> Decimal:
    return ONE / (ONE + min(-x, Decimal(10**5)).exp())


def _tanh(x: Decimal) -> Decimal:
    return 2 * _sigmoid(2 * x) - 1


def _softplus(x: Decimal) -> Decimal:
    return (ONE + x.exp()).ln()


def _normal_share(x: Decimal) -> Decimal:
    if abs(x) > 14:
        return Decimal(int(x > 0))
    term = total = x
    for n in range(1, 400):
        term *= x * x / (2 * n + 1)
        total += term
    return Decimal("0.5") + total * (-x * x / 2).exp() * Decimal("0.39894228040143267793994605993438186847585863116493")


def _gelu_tanh(x: Decimal) -> Decimal:
    inner = Decimal("0.79788456080286535587989211986876373695171726232986") * (x + Decimal("0.044715") * x**3)
    return x * _sigmoid(2 * inner)


ORACLE: dict[str, Callable[[Decimal, float, float], Decimal]] = {
    "sigmoid": lambda x, *_: _sigmoid(x),
    "silu": lambda x, *_: x * _sigmoid(x),
    "tanh": lambda x, *_: _tanh(x),
    "leaky_relu": lambda x, alpha, _: x if x >= 0 else Decimal(alpha) * x,
    "elu": lambda x, alpha, _: x if x >= 0 else Decimal(alpha) * (x.exp() - 1),
    "hard_sigmoid": lambda x, alpha, beta: _clipped(Decimal(alpha) * x + Decimal(beta), 0, 1),
    "hard_swish": lambda x, *_: x * _clipped(x / 6 + Decimal("0.5"), 0, 1),
    "softplus": lambda x, *_: _softplus(x),
    "mish": lambda x, *_: x * _tanh(_softplus(x)),
    "clip": _clipped,
    "gelu": lambda x, *_: x * _normal_share(x),
    "gelu_tanh": lambda x, *_: _gelu_tanh(x),
}


@pytest.mark.parametrize("function", EXACT)
@given(data=st.data())
@settings(max_examples=6, deadline=None, derandomize=True)
def test_entries_are_the_nearest_integers_but_at_ties(function: Any, data: st.DataObject) -> None:
    start, step = data.draw(floats(-20, 2, width=32)), data.draw(floats(2**-10, 0.25, width=32))
    scale, alpha = data.draw(floats(2**-10, 0.25, width=32)), data.draw(floats(-2, 2))
    out = data.draw(st.sampled_from((OUT, TensorType((1, 1, 1), signed=False, zero_point=9), replace(OUT, bits=4))))
    out = replace(out, zero_point=max(out.zero_point, out.lo))
    beta = alpha + data.draw(floats(0, 3))
    recipe = TableRecipe.of(function, np.array([start]), np.array([step]), np.array([scale]), out, alpha, beta)
    (row,) = recipe.make(out).tolist()
    with localcontext() as context:
        context.prec = 50
        for i in range(0, 256, 3):
            x = Decimal(start) + i * Decimal(step)
            value = ORACLE[function](x, alpha, beta) / Decimal(scale) + Decimal("0.5")
            within = Decimal(2) ** -48 * 2 * (1 + abs(x)) / Decimal(scale)
            nearest = {
                min(max(int(end.to_integral_value(ROUND_FLOOR)) + out.zero_point, out.lo), out.hi)
                for end in (value - within, value + within)
            }
            assert row[i] in nearest


@pytest.mark.parametrize("function", EXACT)
def test_reals_are_as_near_as_stated(function: str) -> None:
    x = np.concatenate([np.linspace(-745, 745, 150), np.linspace(-9, 9, 150), [0.0, -0.0, 1e-30, -1e-9, 1e5, -1e5]])
    found = evaluate_exactly(function, x, 0.5, 1.5)
    with localcontext() as context:
        context.prec = 80
        for each, y in zip(x.tolist(), found.tolist(), strict=True):
            real = ORACLE[function](Decimal(each), 0.5, 1.5) if abs(each) < 1e4 else Decimal(y)
            assert abs(Decimal(y) - real) <= Decimal(2) ** -48 * (1 + abs(Decimal(each)))


def _recipe(function: Any, channels: int = 3, output: TensorType = OUT) -> TableRecipe:
    c = np.arange(channels)
    return TableRecipe.of(function, -c - 3.1, 0.03 + 0.011 * c, 0.02 + 0.003 * c, output, 0.25, 3.0)


def test_bytes_are_the_same_on_every_machine() -> None:
    found = {name: _recipe(name, 40, replace(OUT, shape=(1, 1, 40))).checksum for name in EXACT}
    assert hashlib.sha256("".join(found[name] for name in EXACT).encode()).hexdigest() == GOLDEN, found


GOLDEN = "c653ccdf4a495ee317c7fd82d971a157941d0e98957f7ca4cc1c728b763199e5"


def _model(recipe: TableRecipe | NDArray[Any], output: TensorType = OUT) -> Model:
    net = NetworkBuilder("recipes", replace(output, zero_point=3))
    net.append(Lookup("lookup", net.start, output, recipe))
    return net.observe("lookup").model


def test_a_file_holds_the_recipe_instead_of_the_tables() -> None:
    recipe = _recipe("silu", 64, output := replace(OUT, shape=(4, 5, 64)))
    data = encode(_model(recipe, output))
    assert len(encode(_model(recipe.make(output), output))) - len(data) > 64 * (256 - 3 * 4) - 600
    restored = decode(data).by_name["lookup"]
    assert isinstance(restored, Lookup)
    assert isinstance(restored.table, TableRecipe)
    np.testing.assert_array_equal(restored.entries, recipe.make(output))
    assert restored.entries.shape == (64, 256)
    assert encode(decode(data)) == data


def test_equal_tables_are_one() -> None:
    same = np.full(3, 0.1)
    assert TableRecipe.of("silu", -20 * same, same, same, OUT).make(OUT).shape == (1, 256)
    nearly = TableRecipe.of("hard_sigmoid", -20 * same, same, np.array([0.1, 0.1, 0.1000001]), OUT, 1 / 6, 0.5)
    assert nearly.start.shape == nearly.scale.shape == (1,)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"checksum": "0" * 64}, f"its tables have the checksum '{'0' * 64}', but "),
        ({"scale": np.full(3, 0.07, np.float32)}, "its tables have the checksum "),
        ({"function": "sine"}, "function is 'sine', expected one of "),
        ({"step": np.zeros(3, np.float32)}, r"step is 0.0, expected 1e-30 .. 1e\+30"),
        ({"start": np.full(3, np.inf, np.float32)}, "start holds NaN or infinity"),
        ({"start": np.zeros(2, np.float32)}, r"start is float32 \[2\], expected float32 \[1\] or \[3\]"),
        ({"scale": np.ones(1, np.float32)}, r"scale is float32 \[1\], expected float32 \[3\]"),
        ({"alpha": float("nan")}, "alpha is nan, expected "),
    ],
)
def test_other_tables_are_refused(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ModelError, match=f"^layer 'lookup': {sentence}"):
        encode(_model(replace(_recipe("silu"), **change)))


@given(step=floats(allow_nan=True, width=32), alpha=floats(), zero=integers(-128, 127))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_any_numbers_make_tables_or_are_refused(step: float, alpha: float, zero: int) -> None:
    out = replace(OUT, zero_point=zero)
    for function in EXACT:
        try:
            recipe = TableRecipe.of(function, np.array([-9e29, 1]), np.array([step]), np.array([2e-30]), out, alpha)
        except ModelError:
            continue
        recipe.prove(replace(out, shape=(1, 1, 2)))


def test_hostile_files_make_no_more_tables_than_the_limit() -> None:
    recipe = _recipe("silu")
    wide = replace(OUT, shape=(1, 1, 1 << 16))
    large = replace(recipe, start=np.zeros(1 << 16, np.float32))
    net = NetworkBuilder("many", wide)
    for i in range(MAX_RECIPES // (1 << 16) + 1):
        net.append(Lookup(f"lookup{i}", net.start, wide, large))
    with pytest.raises(ModelError, match=r"^recipes make 196608 tables, expected at most 131072$"):
        encode(net.observe("lookup0").model)
