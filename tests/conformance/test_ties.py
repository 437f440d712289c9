"""The cases of ties.py reveal wrong arithmetic: each error changes results of each set of rows."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from edgemeta.kernels.cuda.lowering import lower
from edgemeta.kernels.cuda.plan.architectures import ARCHITECTURES
from edgemeta.kernels.cuda.plan.epilogue import Form
from edgemeta.model.graph import INPUT
from edgemeta.model.layers import Add, AveragePool, Conv, Dense, Multiplier, Requantize, Rescale, ShiftTable, TensorType
from tests.conformance import oracle
from tests.conformance.networks import Case
from tests.conformance.ties import ROWS, ties

Integers = NDArray[np.int64]
BY_NAME: dict[str, Case] = {case.name: case for case in ties()}


def half_of(shift: Integers) -> Integers:
    return np.where(shift > 0, np.int64(1) << np.maximum(shift - 1, 0), 0)


def half_up(value: Integers, shift: Integers, wrong_by: int = 0) -> Integers:
    return value + half_of(shift) + np.where(shift > 0, wrong_by, 0) >> shift


def half_to_even(value: Integers, shift: Integers) -> Integers:
    rounded = half_up(value, shift)
    is_tie = (shift > 0) & ((value & (np.int64(1) << shift) - 1) == half_of(shift))
    return rounded - (is_tie & (rounded % 2 == 1))


def half_away_from_zero(value: Integers, shift: Integers) -> Integers:
    return np.sign(value) * half_up(np.abs(value), shift)


def as_float32(value: Integers, shift: Integers) -> Integers:
    return np.floor(value.astype(np.float32) / 2.0**shift + 0.5).astype(np.int64)


Round = Callable[[Integers, Integers], Integers]
ROUNDINGS: dict[str, Round] = {
    "half - 1": lambda value, shift: half_up(value, shift, -1),
    "half + 1": lambda value, shift: half_up(value, shift, 1),
    "floor": lambda value, shift: value >> shift,
    "half to even": half_to_even,
    "half away from zero": half_away_from_zero,
    "a shift too great": lambda value, shift: half_up(value, np.minimum(shift + 1, 62)),
    "a shift too small": lambda value, shift: half_up(value, np.maximum(shift - 1, 0)),
}
PRODUCTS: dict[str, Callable[[Integers, Integers], Integers]] = {
    "32 bits of the product": lambda sums, multiplier: (sums * multiplier).astype(np.int32).astype(np.int64),
    "the accumulator as a float32": lambda sums, multiplier: sums.astype(np.float32).astype(np.int64) * multiplier,
}
ENDS = {"lo + 1": (1, 0), "lo - 1": (-1, 0), "hi - 1": (0, -1), "hi + 1": (0, 1)}
FORMS = {
    "gentle": Form.LINE,
    "half-and-more": Form.LINE,
    "steep": Form.LINE,
    "converted": Form.CONVERTED_LINE,
    "fine": Form.FINE_LINE,
    "far": Form.MULTIPLIER,
    "ends": Form.MULTIPLIER,
}
"""Of a set of rows on CUDA, whatever the layer."""
WITH_LONG_ACCUMULATORS = ("far", "ends")
"""Elsewhere every accumulator is a float32, and taking it as one is no mistake."""


@cache
def sums_of(name: str) -> tuple[Integers, Requantize | None, TensorType]:
    """Accumulators [N, C] of a case's first layer over all batches, and how they are requantized."""
    case = BY_NAME[name]
    layer = case.model.layers[0]
    assert isinstance(layer, Conv | Dense | Rescale | AveragePool)
    sums = [
        oracle.compute(replace(layer, requantize=None), {INPUT: batch}, {INPUT: case.model.input})
        for _, batch in case.batches()
    ]
    return np.concatenate([each.reshape(-1, layer.output.shape[2]) for each in sums]), layer.requantize, layer.output


def multiplied(
    sums: Integers,
    requantize: Multiplier,
    output: TensorType,
    rounding: Round = half_up,
    product: Callable[[Integers, Integers], Integers] = np.multiply,
    ends: tuple[int, int] = (0, 0),
) -> Integers:
    shift = requantize.shift.astype(np.int64)
    y = rounding(product(sums, requantize.multiplier.astype(np.int64)), shift) + output.zero_point
    return np.clip(y, requantize.lo + ends[0], requantize.hi + ends[1])


@pytest.mark.parametrize("layer", ["conv", "dense"])
@pytest.mark.parametrize("rows", ROWS)
def test_every_wrong_multiplier_is_detected(rows: str, layer: str) -> None:
    sums, requantize, output = sums_of(f"ties-{layer}-{rows}")
    assert isinstance(requantize, Multiplier)
    right = multiplied(sums, requantize, output)
    mistakes = {name: multiplied(sums, requantize, output, rounding=rounding) for name, rounding in ROUNDINGS.items()}
    mistakes |= {name: multiplied(sums, requantize, output, ends=ends) for name, ends in ENDS.items()}
    mistakes |= {name: multiplied(sums, requantize, output, product=product) for name, product in PRODUCTS.items()}
    if rows not in WITH_LONG_ACCUMULATORS:
        np.testing.assert_array_equal(mistakes.pop("the accumulator as a float32"), right)
    assert [name for name, made in mistakes.items() if np.array_equal(made, right)] == []


@pytest.mark.parametrize("rows", ROWS)
def test_multipliers_from_half_of_int32_on_do_not_all_saturate(rows: str) -> None:
    """In every set, at least one large multiplier has a tie inside the clamp."""
    sums, requantize, output = sums_of(f"ties-conv-{rows}")
    assert isinstance(requantize, Multiplier)
    multiplier, shift = requantize.multiplier.astype(np.int64), requantize.shift.astype(np.int64)
    is_tie = (shift > 0) & ((sums * multiplier & (np.int64(1) << shift) - 1) == half_of(shift))
    right = multiplied(sums, requantize, output)
    is_inside = (right > requantize.lo) & (right < requantize.hi)
    negative = is_tie & is_inside & (sums < 0)
    assert (is_tie & is_inside & (multiplier >= 1 << 30)).any()
    assert negative.any()


@pytest.mark.parametrize("layer", ["conv", "dense"])
@pytest.mark.parametrize("kind", ["line", "any"])
def test_every_wrong_table_is_detected(kind: str, layer: str) -> None:
    sums, requantize, _ = sums_of(f"ties-table-{kind}-{layer}")
    assert isinstance(requantize, ShiftTable)
    shift, column = requantize.shift.astype(np.int64), np.arange(len(requantize.shift))

    def looked_up(rounding: Round, ends: tuple[int, int] = (0, 0)) -> NDArray[np.int8]:
        return requantize.table[column, np.clip(rounding(sums, shift), -128 + ends[0], 127 + ends[1]) + 128]

    right = looked_up(half_up)
    mistakes = {name: looked_up(rounding) for name, rounding in ROUNDINGS.items()}
    if kind == "any":  # the ends of a line are those of its clamp
        mistakes |= {name: looked_up(half_up, ends) for name, ends in {"t > -128": (1, 0), "t < 127": (0, -1)}.items()}
    assert [name for name, made in mistakes.items() if np.array_equal(made, right)] == []


@pytest.mark.parametrize("name", [name for name in BY_NAME if name.startswith("ties-add-")])
def test_every_wrong_addition_is_detected(name: str) -> None:
    case = BY_NAME[name]
    add = next(layer for layer in case.model.layers if isinstance(layer, Add))
    types = case.model.types
    totals = []
    for _, batch in case.batches():
        tensors = oracle.trace(case.model, batch)
        a, b = (oracle.real(each, tensors, types) for each in add.inputs)
        totals.append((add.multipliers[0] * a + add.multipliers[1] * b).ravel())
    total, shift = np.concatenate(totals), np.int64(add.shift)

    def added(rounding: Round) -> Integers:
        return np.clip(rounding(total, shift) + add.output.zero_point, add.lo, add.hi)

    right = added(half_up)
    reported = {name for name, rounding in ROUNDINGS.items() if not np.array_equal(added(rounding), right)}
    assert reported >= {
        "floor",
        "half to even",
        "half away from zero",
        "a shift too great",
        "a shift too small",
        "half - 1",
    }


@pytest.mark.parametrize("architecture", ["sm_53", "sm_87"])
def test_every_form_of_the_cuda_kernels_has_cases_with_ties(architecture: str) -> None:
    """Each set of rows gets its intended form, and together they cover all forms that round."""
    forms = {}
    for case in BY_NAME.values():
        if case.name.startswith(("ties-conv", "ties-dense", "ties-table")):
            defines = dict(lower(case.model, ARCHITECTURES[architecture]).launches[0].source.defines)
            forms[case.name] = Form(defines.get("MAIN_FORM", defines.get("DENSE_FORM")))
    expected = {f"ties-{layer}-{rows}": form for rows, form in FORMS.items() for layer in ("conv", "dense")}
    expected |= {f"ties-table-line-{layer}": Form.SHIFTED_LINE for layer in ("conv", "dense")}
    expected |= {f"ties-table-any-{layer}": Form.TABLE for layer in ("conv", "dense")}
    assert forms == expected
    assert {*forms.values(), Form.RAW} == set(Form)
