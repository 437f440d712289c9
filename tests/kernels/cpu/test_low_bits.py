"""Convolutions and products of few bits equal NumPy's int64, in every form and on every instruction set."""

from collections.abc import Sequence
from contextlib import closing
from functools import partial
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from edgemeta.kernels.cpu.gemm import Gemm, dequantize, quantize
from edgemeta.kernels.cpu.library import FORMS, supported_isas
from edgemeta.kernels.cpu.program import Program
from edgemeta.model.layers import TensorType
from tests.conformance.networks import Case, NetworkBuilder
from tests.kernels.cpu.exact import assert_equals_reference

ISAS = supported_isas()
WIDTHS = range(1, 9)


def integers(bits: int, signed: bool, shape: tuple[int, ...], pattern: str, seed: int = 0) -> NDArray[np.int64]:
    """Random integers of the type, or only its ends, or one end everywhere."""
    lo = -(1 << (bits - 1)) if signed else 0
    hi = lo + (1 << bits) - 1
    random = np.random.default_rng(seed)
    match pattern:
        case "random":
            return random.integers(lo, hi + 1, shape)
        case "ends":
            return random.choice([lo, hi], shape)
        case "least":
            return np.full(shape, lo)
        case _:
            return np.full(shape, hi)


def mismatches(
    rows: int, outputs: int, depth: int, bits: tuple[int, int], isa: str, form: str, pattern: str, inputs: Sequence[str]
) -> int:
    """Wrong sums of weights of one pattern by inputs of some."""
    weights = integers(bits[0], True, (outputs, depth), pattern, 1)
    weights[0, 0] = -(1 << (bits[0] - 1))  # the planner goes by the weights: they have all their bits
    count = 0
    for signed in (False, True):
        with closing(Gemm(rows, weights.astype(np.int8), bits, signed, isa, form)) as gemm:
            for each in inputs:
                x = integers(bits[1], signed, (rows, depth), each, 2)
                found = gemm.multiply(x.astype(np.int8 if signed else np.uint8))
                count += int(np.count_nonzero(found != x @ weights.T))
    return count


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("form", FORMS)
def test_every_pair_of_widths(isa: str, form: str) -> None:
    for weight_bits, input_bits in product(WIDTHS, WIDTHS):
        assert mismatches(9, 20, 70, (weight_bits, input_bits), isa, form, "random", ["random"]) == 0


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("form", FORMS)
def test_extremes(isa: str, form: str) -> None:
    """The ends of both ranges, alone and mixed, over windows that fill every kind of intermediate sum."""
    ends = ("ends", "least", "greatest")
    for bits in product((1, 2, 4, 7, 8), (1, 2, 4, 8)):
        for pattern in ends:
            assert mismatches(3, 16, 2200, bits, isa, form, pattern, ends) == 0


@settings(max_examples=40, deadline=None)
@given(
    rows=st.integers(1, 40),
    outputs=st.integers(1, 50),
    depth=st.integers(1, 300),
    bits=st.tuples(st.integers(1, 8), st.integers(1, 8)),
    isa=st.sampled_from(ISAS),
    form=st.sampled_from(FORMS),
)
def test_any_shape(rows: int, outputs: int, depth: int, bits: tuple[int, int], isa: str, form: str) -> None:
    assert mismatches(rows, outputs, depth, bits, isa, form, "random", ["ends"]) == 0


@st.composite
def two_layers(draw: st.DrawFn) -> Case:
    """One layer reads the given image, whose range is not trusted; one a tensor of few bits, with padding."""
    shape = draw(st.tuples(st.integers(3, 9), st.integers(3, 30), st.integers(1, 40)))
    kernel, stride = draw(st.tuples(*[st.integers(1, 3)] * 2)), draw(st.tuples(*[st.integers(1, 2)] * 2))
    weight_bits, input_bits = draw(st.tuples(*[st.integers(1, 8)] * 2))
    signed = draw(st.booleans())
    kind = TensorType(shape, input_bits, signed, zero_point=-1 if signed and input_bits > 1 else 0, scale=0.05)
    net = NetworkBuilder(f"low-bit-{weight_bits}-{input_bits}-{shape}-{kernel}", kind)
    weights = partial(net.fixed, bits=weight_bits)
    padding = (kernel[0] - 1, kernel[1] - 1, kernel[0] // 2, 0)
    hidden = net.conv(net.start, shape[2], (1, 1), weights=weights, output=kind)
    outputs = draw(st.integers(1, 40))
    return net.observe(net.conv(hidden, outputs, kernel, stride, padding, weights=weights, output=kind))


@settings(max_examples=60, deadline=None)
@given(case=two_layers(), isa=st.sampled_from(ISAS), form=st.sampled_from(FORMS), threads=st.integers(1, 2))
def test_any_convolution(case: Case, isa: str, form: str, threads: int) -> None:
    with closing(Program(case.model, isa, threads, form)) as program:
        assert_equals_reference(program, case)


@settings(max_examples=40, deadline=None)
@given(
    shape=st.tuples(st.integers(2, 7), st.integers(2, 20), st.integers(1, 40)),
    outputs=st.sampled_from([1, 16, 17, 40, 130]),
    kernel=st.tuples(st.integers(1, 2), st.integers(1, 2)),
    encoding=st.sampled_from(["power of two", "binary", "wide binary", "dense"]),
    isa=st.sampled_from(ISAS),
)
def test_weights_of_several_digits(
    shape: tuple[int, int, int], outputs: int, kernel: tuple[int, int], encoding: str, isa: str
) -> None:
    """Weights that do not fit int8: +128 among powers of two, and sums of binary bases."""
    net = NetworkBuilder(f"digits-{shape}-{outputs}-{kernel}-{encoding}", TensorType(shape, scale=0.05))
    weights = {
        "power of two": partial(net.power_of_two, bits=5),
        "binary": partial(net.binary, bases=2),
        "wide binary": partial(net.binary, bases=8, reach=32767),
        "dense": partial(net.binary, bases=3, reach=400),
    }[encoding]
    if encoding == "dense":
        case = net.observe(net.dense(net.start, outputs, weights=weights, form="multiplier"))
    else:
        case = net.observe(
            net.conv(net.start, outputs, kernel, padding=(kernel[0] - 1, 0, 0, kernel[1] - 1), weights=weights)
        )
    with closing(Program(case.model, isa, 1)) as program:
        assert_equals_reference(program, case)


@settings(max_examples=60, deadline=None)
@given(
    shape=st.tuples(st.integers(3, 9), st.integers(3, 30), st.integers(1, 40)),
    outputs=st.integers(1, 40),
    kernel=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    stride=st.tuples(st.integers(1, 2), st.integers(1, 2)),
    bases=st.integers(1, 8),
    input_bits=st.integers(1, 5),
    signed=st.booleans(),
    reach=st.sampled_from([1, 15, 32767]),
    isa=st.sampled_from(ISAS),
    form=st.sampled_from(("fastest", "plain", "planes")),
)
def test_weights_as_binary_bases(
    shape: tuple[int, int, int],
    outputs: int,
    kernel: tuple[int, int],
    stride: tuple[int, int],
    bases: int,
    input_bits: int,
    signed: bool,
    reach: int,
    isa: str,
    form: str,
) -> None:
    """Factors of any sign, zero points, padding, and weights of more than 8 bits."""
    kind = TensorType(shape, input_bits, signed, zero_point=-1 if signed and input_bits > 1 else 0, scale=0.05)
    net = NetworkBuilder(f"bases-{bases}-{input_bits}-{shape}-{kernel}", kind)
    padding = (kernel[0] - 1, kernel[1] - 1, kernel[0] // 2, 0)
    hidden = net.conv(net.start, shape[2], (1, 1), output=kind)
    weights = partial(net.binary, bases=bases, reach=reach)
    case = net.observe(net.conv(hidden, outputs, kernel, stride, padding, weights=weights, output=kind))
    with closing(Program(case.model, isa, 1, form)) as program:
        assert_equals_reference(program, case)


def test_the_planner_takes_bases_where_they_are_faster() -> None:
    """Two bases of weights that need eight bits: counted in plain C++, multiplied where that is faster."""
    forms = {}
    for bases, bits in ((2, 2), (8, 4), (2, 5)):
        kind = TensorType((16, 16, 64), bits, signed=False, scale=0.05)
        net = NetworkBuilder("bases", kind)
        hidden = net.conv(net.start, 64, (1, 1), output=kind)
        conv = net.conv(hidden, 64, (3, 3), padding=(1, 1, 1, 1), weights=partial(net.binary, bases=bases, reach=60))
        case = net.observe(conv)
        with closing(Program(case.model, "portable", 1)) as program:
            forms[bases, bits] = program.forms()[conv]
    assert forms[2, 2].description.startswith("planes: 2 bases x 2 bit planes, about 0.")
    assert forms[2, 2].weight_bytes == 2 * 64 * 576 // 8
    assert forms[8, 4].description.startswith("planes: 8 bases x 4 bit planes, about 0.")
    assert forms[2, 5].description.startswith("plain: int16 weights")


@pytest.mark.parametrize("isa", ISAS)
def test_weights_take_their_bits_in_memory(isa: str) -> None:
    for bits in range(1, 8):
        weights = integers(bits, True, (32, 128), "ends").astype(np.int8)
        for form in ("packed", "planes"):
            with closing(Gemm(64, weights, (bits, 2), isa=isa, form=form)) as gemm:
                if gemm.form.description.startswith(form):  # AVX-512 without VPOPCNTDQ has no planes
                    assert gemm.form.weight_bytes == 32 * 128 * bits // 8


@pytest.mark.parametrize("isa", ISAS)
def test_few_bits_stay_few_beside_activations_of_eight(isa: str) -> None:
    """AVX2 sums bytes where the others unpack, whatever the weights are."""
    form = "bytes" if isa == "avx2" else "packed"
    for bits in range(1, 8):
        weights = np.full((32, 128), -(1 << (bits - 1)), np.int8)
        with closing(Gemm(64, weights, (bits, 8), isa=isa, form=form)) as gemm:
            assert (gemm.form.name, gemm.form.weight_bytes) == (form, 32 * 128 * bits // 8)
    if isa == "avx2":
        with closing(Gemm(64, weights, (7, 8), isa=isa, form="packed")) as gemm:
            assert gemm.form.name != "packed"


def test_the_planner_says_what_it_took() -> None:
    weights = integers(2, True, (64, 576), "random").astype(np.int8)
    with closing(Gemm(256, weights, (2, 2), isa="portable")) as gemm:
        assert gemm.form.description.startswith("planes: 2 x 2 bit planes, about 0.")
    with closing(Gemm(256, weights, (2, 8), isa="portable")) as gemm:
        assert gemm.form.description.startswith("packed: 2-bit weights unpacked to int16, about 1.")
    with closing(Gemm(1, weights, (2, 8), isa="portable")) as gemm:
        assert gemm.form.description.startswith("plain: int16 weights; next: packed: 2-bit weights unpacked to int16")
    with closing(Gemm(256, integers(8, True, (64, 576), "ends").astype(np.int8), (8, 8), isa="portable")) as gemm:
        assert gemm.form.description == "plain: int16 weights"


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("bits", WIDTHS)
def test_quantize_is_numpys_float32(isa: str, bits: int) -> None:
    x = np.random.default_rng(bits).normal(size=(13, 37)).astype(np.float32)
    found = quantize(x, bits, isa)
    top = np.float32(2**bits - 1)
    scale = top / (x.max() - x.min())
    expected = np.minimum((x - x.min()) * scale + np.float32(0.5), top).astype(np.uint8)
    assert (found.integers == expected).all()
    assert (found.integers.min(), found.integers.max()) == (0, 2**bits - 1)
    assert found.least == x.min()
    assert found.step == pytest.approx((x.max() - x.min()) / (2**bits - 1))
    assert not quantize(np.full(5, 3.5, np.float32), bits, isa).integers.any()


@pytest.mark.parametrize("isa", ISAS)
def test_dequantize_is_numpys_float32(isa: str) -> None:
    random = np.random.default_rng(0)
    sums = random.integers(-(2**31), 2**31, (7, 19)).astype(np.int32)
    scale, offset = random.normal(size=(2, 19)).astype(np.float32)
    assert (dequantize(sums, scale, offset, isa) == sums.astype(np.float32) * scale + offset).all()
