"""Sums of 8 and 16 bits on emulated ARM processors equal the reference at the ends that the planner has proved."""

from collections.abc import Iterator
from contextlib import closing
from itertools import product
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from edgemeta.kernels.cpu.gemm import Gemm
from edgemeta.model import reference
from rig.arm.machines import MACHINES, Machine, MissingToolError
from tests.conformance.networks import Case, assert_equal_outputs
from tests.kernels.cpu.test_arm import run
from tests.kernels.cpu.test_low_bits import WIDTHS, integers, mismatches, two_layers

pytestmark = [
    pytest.mark.gate("minutes of processor time: cross compiling, and products on emulated processors"),
    pytest.mark.timeout(900),  # whoever comes first compiles the library, for all
]

_LIBRARY = "edgemeta.kernels.cpu.program.library"
NARROW = [machine for machine in MACHINES if machine.isa == "neon"]
"""The processors that have the form; others run another one where it is asked for."""


@pytest.fixture(scope="module", params=MACHINES, ids=[machine.processor for machine in MACHINES])
def machine(request: pytest.FixtureRequest) -> Iterator[Machine]:
    """A processor whose library is in use."""
    found: Machine = request.param
    try:
        library = found.start()
    except MissingToolError as error:
        pytest.skip(str(error))
    with mock.patch(_LIBRARY, return_value=library):
        yield found
    library.stop()


def at_the_ends(weights: NDArray[np.int64], bits: int, signed: bool) -> NDArray[np.int64]:
    """For each output the inputs of its greatest sum and those of its least one."""
    lo = -(1 << (bits - 1)) if signed else 0
    hi = lo + (1 << bits) - 1
    return np.concatenate([np.where(weights > 0, hi, lo), np.where(weights > 0, lo, hi)])


@pytest.mark.parametrize("form", ["bytes", "fastest"])
def test_every_pair_of_widths(machine: Machine, form: str) -> None:
    for bits in product(WIDTHS, WIDTHS):
        assert mismatches(9, 20, 70, bits, machine.isa, form, "random", ["random"]) == 0, bits


def test_greatest_and_least_sums(machine: Machine) -> None:
    """Inputs that bring every sum to the ends of its range, so that one step too many would be seen."""
    for bits, signed, pattern in product(product(WIDTHS, WIDTHS), (False, True), ("random", "ends")):
        weights = integers(bits[0], True, (24, 560), pattern, sum(bits))
        weights[0, 0] = -(1 << (bits[0] - 1))
        x = at_the_ends(weights, bits[1], signed)
        with closing(Gemm(48, weights.astype(np.int8), bits, signed, machine.isa, "bytes")) as gemm:
            found = gemm.multiply(x.astype(np.int8 if signed else np.uint8))
            assert (found == x @ weights.T).all(), (bits, signed, pattern, gemm.form)


@pytest.mark.parametrize(
    ("bits", "places", "value", "sums"),
    [
        (1, [3], -128, ""),  # -1 times -128: one more than int8 holds
        (8, [3, 11], -128, ""),  # twice -128 times -128 in one sum: one more than int16 holds
        (1, [3, 19], 64, "2 steps in int8"),  # -128 itself, which int8 does hold
    ],
)
def test_sums_exactly_at_the_end(machine: Machine, bits: int, places: list[int], value: int, sums: str) -> None:
    weights = np.zeros((20, 16 * (1 + max(places) // 16)), np.int8)
    weights[:, places] = value
    x = np.full((3, weights.shape[1]), -(1 << (bits - 1)), np.int8)
    x[1] = (1 << (bits - 1)) - 1
    with closing(Gemm(3, weights, (8, bits), True, machine.isa, "bytes")) as gemm:
        assert (gemm.multiply(x) == x.astype(np.int64) @ weights.T.astype(np.int64)).all(), gemm.form
        if machine in NARROW:
            assert sums in gemm.form.description


def test_extremes(machine: Machine) -> None:
    ends = ("ends", "least", "greatest")
    for bits in product((1, 2, 4, 7, 8), (1, 2, 4, 8)):
        for pattern in ends:
            assert mismatches(3, 16, 1100, bits, machine.isa, "bytes", pattern, ends) == 0, (bits, pattern)


@settings(max_examples=60, deadline=None)
@given(case=two_layers(), form=st.sampled_from(("bytes", "fastest")), threads=st.integers(1, 2))
def test_any_convolution(machine: Machine, case: Case, form: str, threads: int) -> None:
    for name, batch in case.batches():
        expected = reference.run(case.model, batch)
        assert_equal_outputs(run(case.model, batch, machine.isa, threads, form), expected, name)


def test_pairs_of_minus_128_at_every_output(machine: Machine) -> None:
    """A few outputs add their products one by one: the right ones, with any number of pixels left over."""
    for rows, output in product(range(1, 10), range(20)):
        weights = np.full((20, 48), 127, np.int8)
        weights[output, 3::8] = -128
        x = np.full((rows, 48), -128, np.int8)
        x[::2, 5:] = 127
        with closing(Gemm(rows, weights, (8, 8), True, machine.isa, "plain")) as gemm:
            assert (gemm.multiply(x) == x.astype(np.int64) @ weights.T).all(), (rows, output)


@pytest.mark.parametrize("machine", NARROW, ids=[machine.processor for machine in NARROW], indirect=True)
def test_the_planner_takes_the_form_of_fewest_instructions(machine: Machine) -> None:
    """In 16 bits, in 8 bits, or bit planes; weights take their bits in memory."""
    expected = {
        (8, 8): "plain: int8 weights",
        (4, 4): "bytes: 4-bit weights unpacked to int8, 36 steps in int16, about 0.",
        (2, 2): "bytes: 2-bit weights unpacked to int8, 36 steps in int8, about 0.",
        (8, 3): "bytes: int8 weights, 36 steps in int16, about 0.",
        (1, 1): "planes: 1 x 1 bit planes, about 0.",
    }
    for bits, description in expected.items():
        weights = integers(bits[0], True, (64, 576), "random").astype(np.int8)
        with closing(Gemm(256, weights, bits, isa=machine.isa)) as gemm:
            assert gemm.form.description.startswith(description)
            assert gemm.form.weight_bytes == 64 * 576 * bits[0] // 8
