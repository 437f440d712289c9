"""Weights up to +128, which int8 lacks: halved and negated channels, complemented inputs, sums of two weights."""

from contextlib import closing
from dataclasses import replace
from typing import Literal, TypeAlias

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from edgemeta.kernels.cpu.library import supported_isas
from edgemeta.kernels.cpu.program import Program
from edgemeta.model.layers import Conv, Multiplier, Requantize, ShiftTable, TensorType
from edgemeta.model.weights import PowerOfTwoWeights
from tests.conformance.networks import Case, NetworkBuilder, raw
from tests.kernels.cpu.exact import assert_equals_reference
from tests.missing_parts import on_any_of

ISAS = supported_isas()
Signs: TypeAlias = Literal["positive", "negative", "mostly positive", "both"]
Form: TypeAlias = Literal[
    "multiplier", "wide multiplier", "far multiplier", "line", "far line", "flat line", "clamped line", "noise", "raw"
]
ON_VNNI = ("avxvnni", "avx512vnni")


def powers(net: NetworkBuilder, shape: tuple[int, ...], signs: Signs, even: bool = False) -> PowerOfTwoWeights:
    """0 or +-1 .. +-64, `even` ones only from +-2 on, and a tenth of weights of magnitude 128 of these signs."""
    share = 0.1
    exponents = net.rng.integers(0, 8, shape)
    if even:
        exponents[exponents == 1] = 2
    negative = net.rng.integers(0, 2, shape)
    greatest = net.rng.random(shape) < share
    greatest.reshape(shape[0], -1)[:, 0] = True
    exponents[greatest] = 8
    chance = {"positive": 0.0, "negative": 1.0, "mostly positive": 0.1, "both": 0.5}[signs]
    negative[greatest] = (net.rng.random(shape) < chance)[greatest]
    codes = (exponents + 16 * negative * (exponents > 0)).astype(np.uint8)
    return PowerOfTwoWeights(codes, 5, np.array([2.0**-6]))


def requantization(
    net: NetworkBuilder, form: Form, spread: NDArray[np.float64], output: TensorType
) -> Requantize | None:
    """Of the named kind; lines have a slope of either sign in each channel."""
    channels = len(spread)
    if form == "raw":
        return None
    if form == "multiplier":
        return net.requantize("multiplier", spread, output)
    if form == "wide multiplier":
        return Multiplier(np.full(channels, 2**31 - 1, np.int32), np.full(channels, 29, np.uint8), output.lo, output.hi)
    if form == "far multiplier":  # all of int32 to 8 bits
        return Multiplier(np.full(channels, 2**30, np.int32), np.full(channels, 54, np.uint8), output.lo, output.hi)
    if form == "noise":
        return net.requantize("table", spread, output)
    shift = np.clip(np.ceil(np.log2(spread / 40)), 0, 30).astype(np.uint8)
    if form == "far line":
        shift[:] = 26
    # "clamped": the output's ends are not reached within the 256 entries, so that the index must be clamped.
    between = (0.3, 0.9) if form == "clamped line" else (1.1, 3.0)
    slope = net.rng.uniform(*between, (channels, 1)) * net.rng.choice([-1, 1], (channels, 1)) * (form != "flat line")
    middle = (output.lo + output.hi) / 2 + net.rng.uniform(-3, 3, (channels, 1))
    entries = np.clip(np.floor(middle + slope * np.arange(-128, 128) + 0.5), output.lo, output.hi)
    return ShiftTable(shift, entries.astype(output.dtype))


def append(
    net: NetworkBuilder,
    source: str,
    channels: int,
    kernel: tuple[int, int],
    stride: int,
    groups: int,
    signs: Signs,
    form: Form,
    even: bool = False,
    bias: NDArray[np.int32] | None = None,
) -> str:
    """A convolution with powers of two."""
    before = net.type_of(source)
    weights = powers(net, (channels, *kernel, before.shape[2] // groups), signs, even)
    spread = net.spread(weights.decode(), before)
    if bias is None:
        bias = net.bias(channels, float(spread.mean()))
    height, width = ((before.shape[i] + kernel[i] // 2 * 2 - kernel[i]) // stride + 1 for i in (0, 1))
    shape = (height, width, channels)
    output = raw(shape) if form == "raw" else replace(before, shape=shape)
    around = (kernel[0] // 2, kernel[1] // 2) * 2
    requantize = requantization(net, form, spread, output)
    layer = Conv(
        net.next_name("conv"),
        source,
        output,
        weights=weights,
        bias=bias,
        stride=(stride, stride),
        padding=around,
        groups=groups,
        requantize=requantize,
    )
    return net.append(layer)


def pointwise(
    net: NetworkBuilder,
    output: TensorType,
    weights: PowerOfTwoWeights,
    bias: NDArray[np.int32],
    groups: int,
    requantize: ShiftTable,
) -> str:
    """A convolution of 1x1 of the network's input."""
    place = {"stride": (1, 1), "padding": (0, 0, 0, 0), "groups": groups}
    return net.append(Conv("conv", net.start, output, weights=weights, bias=bias, requantize=requantize, **place))


def assert_exact(case: Case, isa: str, threads: int = 1) -> list[str]:
    """All outputs equal the reference's; the forms of the convolutions."""
    with closing(Program(case.model, isa, threads)) as program:
        assert_equals_reference(program, case, f"{isa} ")
        return [form.description for form in program.forms().values()]


@settings(max_examples=120, deadline=None)
@given(
    shape=st.tuples(st.integers(1, 6), st.integers(1, 20), st.integers(1, 40)),
    outputs=st.sampled_from([1, 16, 17, 40]),
    kernel=st.sampled_from([(1, 1), (3, 3), (2, 3)]),
    stride=st.integers(1, 2),
    signs=st.sampled_from(Signs.__args__),  # type: ignore[attr-defined]
    form=st.sampled_from(Form.__args__),  # type: ignore[attr-defined]
    even=st.booleans(),
    signed=st.booleans(),
    isa=st.sampled_from(ISAS),
    threads=st.integers(1, 2),
)
def test_any_convolution(
    shape: tuple[int, int, int],
    outputs: int,
    kernel: tuple[int, int],
    stride: int,
    signs: Signs,
    form: Form,
    even: bool,
    signed: bool,
    isa: str,
    threads: int,
) -> None:
    """A convolution of every kind of requantization; with bytes as output a second one adds it to its own result."""
    kind = TensorType(shape, signed=signed, zero_point=3 if signed else 0, scale=0.05)
    net = NetworkBuilder(f"powers-{shape}-{outputs}-{kernel}-{signs}-{form}", kind)
    last = append(net, net.start, outputs, kernel, stride, 1, signs, form, even)
    if form == "raw":
        assert_exact(net.finish(), isa, threads)
        return
    branch = append(net, last, outputs, (3, 3), 1, 1, signs, form, even)
    assert_exact(net.observe(net.add(branch, last, multipliers=(3, 5), shift=3)), isa, threads)


@settings(max_examples=60, deadline=None)
@given(
    shape=st.tuples(st.integers(1, 6), st.integers(1, 12), st.integers(2, 40)),
    kernel=st.sampled_from([(1, 1), (3, 3), (2, 5), (3, 8)]),
    stride=st.integers(1, 2),
    signs=st.sampled_from(Signs.__args__),  # type: ignore[attr-defined]
    form=st.sampled_from([each for each in Form.__args__ if each != "raw"]),  # type: ignore[attr-defined]
    even=st.booleans(),
    isa=st.sampled_from(ISAS),
)
def test_any_depthwise_convolution(
    shape: tuple[int, int, int], kernel: tuple[int, int], stride: int, signs: Signs, form: Form, even: bool, isa: str
) -> None:
    net = NetworkBuilder(f"deep-powers-{shape}-{kernel}-{signs}-{form}", TensorType(shape, scale=0.05))
    case = net.observe(append(net, net.start, shape[2], kernel, stride, shape[2], signs, form, even))
    assert any(each.startswith("depthwise") for each in assert_exact(case, isa))


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize(("kernel", "row"), [((3, 3), 0), ((3, 3), 1), ((3, 3), 2), ((36, 1), 30), ((36, 1), 35)])
def test_a_depthwise_convolution_with_one_weight_that_does_not_fit(isa: str, kernel: tuple[int, int], row: int) -> None:
    """Two of -128 and one of +128 in a channel of the second block: of one row a second weight is multiplied."""

    def weights(shape: tuple[int, ...]) -> PowerOfTwoWeights:
        codes = net.rng.integers(0, 8, shape)
        codes[20, (row + 1) % kernel[0], 0], codes[20, (row + 2) % kernel[0], 0], codes[20, row, 0] = 24, 24, 8
        return PowerOfTwoWeights(codes.astype(np.uint8), 5, np.array([2.0**-6]))

    net = NetworkBuilder(f"one-rest-{kernel}-{row}", TensorType((kernel[0] + 1, 5, 40), scale=0.05))
    padding = (0, kernel[1] // 2) * 2
    case = net.observe(net.conv(net.start, 40, kernel, (1, 1), padding, groups=40, weights=weights))
    assert any(each.startswith("depthwise") for each in assert_exact(case, isa))


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("even", [False, True])
@pytest.mark.parametrize("form", ["multiplier", "far multiplier", "line", "far line", "noise", "raw"])
def test_accumulators_at_the_ends_of_int32(isa: str, even: bool, form: Form) -> None:
    """Biases so great that the sums reach the first and the last integer: a negated channel has no room to spare."""
    net = NetworkBuilder(f"ends-{form}", TensorType((2, 3, 16)))
    weights = powers(net, (16, 1, 1, 16), "positive", even).decode().reshape(16, 16).astype(np.int64)
    lowest, highest = (np.where(weights > 0, end, other) for end, other in ((-128, 127), (127, -128)))
    least, greatest = (weights * lowest).sum(1), (weights * highest).sum(1)
    bias = np.where(np.arange(16) % 2, 2**31 - 1 - greatest, -(2**31) - least)
    # The same weights again: a builder draws them by its name.
    again = NetworkBuilder(f"ends-{form}", TensorType((2, 3, 16)))
    append(again, again.start, 16, (1, 1), 1, 1, "positive", form, even, bias.astype(np.int32))
    layer = again.layers[-1]
    assert isinstance(layer, Conv)
    assert (layer.weights.decode().reshape(16, 16) == weights).all()
    case = again.finish() if form == "raw" else again.observe(layer.name)
    assert_exact(case, isa)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("groups", [1, 16])
@pytest.mark.parametrize("slope", [-3, 1, 3])
def test_a_line_that_leaves_int32_beyond_the_ends_of_its_table(isa: str, groups: int, slope: int) -> None:
    """Indices of up to 2**30 at either side, where the table keeps its first or last entry: three times that wraps."""
    net = NetworkBuilder(f"steep-{groups}-{slope}", TensorType((2, 3, 16)))
    weights = powers(net, (16, 1, 1, 16 // groups), "both")
    bias = np.where(np.arange(16) % 2, 2**30, -(2**30)).astype(np.int32)
    output = TensorType((2, 3, 16), scale=0.05)
    entries = np.clip(slope * np.arange(-128, 128), output.lo, output.hi).astype(output.dtype)
    requantize = ShiftTable(np.zeros(16, np.uint8), np.tile(entries, (16, 1)))
    assert_exact(net.observe(pointwise(net, output, weights, bias, groups, requantize)), isa)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("shift", [0, 1, 2])
@pytest.mark.parametrize("groups", [1, 16])
def test_a_halved_channel_rounds_as_the_whole_one(isa: str, shift: int, groups: int) -> None:
    """Sums around half a step of the table, with even and odd biases of both signs."""
    net = NetworkBuilder(f"halves-{shift}-{groups}", TensorType((3, 5, 16), bits=2))
    codes = np.full((16, 1, 1, 16 // groups), 2 if groups > 1 else 0)
    codes[:, 0, 0, 0] = np.where(np.arange(16) % 3 == 0, 8, 2)  # 128 in some channels, 2 in the others
    weights = PowerOfTwoWeights(codes.astype(np.uint8), 5, np.array([2.0**-6]))
    output = TensorType((3, 5, 16), scale=0.05)
    entries = net.rng.integers(0, 256, (16, 256)).astype(output.dtype)
    requantize = ShiftTable(np.full(16, shift, np.uint8), entries)
    bias = np.arange(-8, 8, dtype=np.int32)
    assert_exact(net.observe(pointwise(net, output, weights, bias, groups, requantize)), isa)


@on_any_of(ON_VNNI, ISAS)
def test_the_form_says_what_was_done(isa: str) -> None:
    """Even channels are halved, others with one sign of 128 negated; with both signs inputs are complemented."""
    wanted: dict[Signs, str] = {
        "positive": "plain: int8 weights, 16 channels negated",
        "negative": "plain: int8 weights",
    }
    for signs, description in wanted.items():
        net = NetworkBuilder(f"described-{signs}", TensorType((4, 4, 16)))
        append(net, net.start, 16, (3, 3), 1, 1, signs, "line")
        assert description in assert_exact(net.observe(net.layers[-1].name), isa)
    net = NetworkBuilder("described-even", TensorType((4, 4, 16)))
    forms = assert_exact(net.observe(append(net, net.start, 16, (2, 3), 1, 1, "both", "line", even=True)), isa)
    assert any(form.startswith("plain: int8 weights, ") and form.endswith(" channels halved") for form in forms)
    net = NetworkBuilder("described-both", TensorType((4, 4, 16)))
    forms = assert_exact(net.observe(append(net, net.start, 16, (2, 3), 1, 1, "both", "line")), isa)
    assert any(form.startswith("digits: int8 weights, ") and "% of them in two parts" in form for form in forms)


@on_any_of(ON_VNNI, ISAS)
@pytest.mark.parametrize("width", [1, 2, 9, 20])
@pytest.mark.parametrize("outputs", [16, 40, 150])
def test_complemented_inputs(isa: str, width: int, outputs: int) -> None:
    """Both signs of 128 in one channel, in tiles of all widths: no weight in two parts; three in a circle leave one."""

    def weights(shape: tuple[int, ...]) -> PowerOfTwoWeights:
        codes = net.rng.integers(0, 8, shape)
        codes[..., 7] = 1  # an odd weight in each channel
        for output, place, code in places:
            codes[output, 1, 0, place] = code
        return PowerOfTwoWeights(codes.astype(np.uint8), 5, np.array([2.0**-6]))

    places = [(0, 5, 8), (0, 3, 24), (9, 3, 8), (9, 12, 24)]
    net = NetworkBuilder(f"complements-{width}-{outputs}", TensorType((3, width, 16), signed=True, zero_point=-7))
    last = net.conv(net.start, outputs, (3, 1), (1, 1), (1, 0, 1, 0), weights=weights)
    forms = assert_exact(net.observe(last), isa)
    assert any(form.startswith("plain: int8 weights, 1 input complemented, 1 channel negated") for form in forms), forms
    places += [(9, 5, 8)]
    net = NetworkBuilder(f"circle-{width}-{outputs}", TensorType((3, width, 16), signed=True, zero_point=-7))
    last = net.conv(net.start, outputs, (3, 1), (1, 1), (1, 0, 1, 0), weights=weights)
    forms = assert_exact(net.observe(last), isa)
    assert any("in two parts, 1 input complemented" in form for form in forms), forms
