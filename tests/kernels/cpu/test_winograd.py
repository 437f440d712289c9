"""Winograd's form of a convolution gives the reference's integers on x86, and is taken only where that is proved.

AVX2 has tiles of 2 x 2 outputs, the sets with VNNI tiles of 4 x 4.
"""

from contextlib import closing
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from edgemeta.kernels.cpu.library import supported_isas
from edgemeta.kernels.cpu.program import Program
from edgemeta.model.layers import TensorType
from edgemeta.model.weights import BinaryWeights, FixedWeights
from tests.conformance.networks import Case, NetworkBuilder
from tests.kernels.cpu.exact import assert_equals_reference
from tests.missing_parts import on_any_of

FORMS = ("avx2", "avxvnni", "avx512vnni")
ISAS = [isa for isa in FORMS if isa in supported_isas()]
VNNI = [isa for isa in ISAS if isa != "avx2"]
pytestmark = pytest.mark.skipif(not ISAS, reason="processor: it has no instruction set with the form")
each_isa, each_vnni = on_any_of(FORMS, ISAS), on_any_of(FORMS[1:], ISAS)


def assert_case(case: Case, isa: str, threads: int, form: str) -> dict[str, str]:
    """Also the form of each convolution."""
    with closing(Program(case.model, isa, threads, form)) as program:
        assert_equals_reference(program, case)
        return {name: each.description.split(":")[0] for name, each in program.forms().items()}


def weights_of(pattern: str, shape: tuple[int, ...]) -> FixedWeights:
    random = np.random.default_rng(len(pattern))
    values: dict[str, NDArray[np.int64]] = {
        "random": random.integers(-128, 128, shape),
        "ends": random.choice([-128, 127], shape),
        "least": np.full(shape, -128),
        "greatest": np.full(shape, 127),
        "middling": random.integers(-70, 71, shape),
    }
    return FixedWeights(values[pattern].astype(np.int8), 8, np.array([2.0**-7]))


@each_isa
@settings(max_examples=20, deadline=None)
@given(
    shape=st.tuples(st.integers(3, 11), st.integers(3, 37), st.sampled_from([9, 16, 33, 48])),
    outputs=st.integers(1, 40),
    padding=st.tuples(*[st.integers(0, 2)] * 4),
    pattern=st.sampled_from(["random", "ends", "least", "greatest"]),
    signed=st.booleans(),
    threads=st.integers(1, 2),
)
def test_any_convolution(
    isa: str,
    shape: tuple[int, int, int],
    outputs: int,
    padding: tuple[int, int, int, int],
    pattern: str,
    signed: bool,
    threads: int,
) -> None:
    """Odd sizes, fewer channels than a block, threads that take an odd number of rows, and a sum with a shortcut."""
    kind = TensorType(shape, 8, signed, zero_point=3, scale=0.05)
    net = NetworkBuilder(f"winograd-{shape}-{outputs}-{padding}-{pattern}", kind)
    weights = partial(weights_of, pattern)
    before = net.conv(net.start, shape[2], (1, 1), weights=weights, output=kind)
    same = net.conv(before, shape[2], weights=weights, output=kind)
    added = net.add(before, same, multipliers=(1 << 18, 3 << 17), shift=19)
    case = net.observe(net.conv(added, outputs, padding=padding, weights=weights, output=kind))
    forms = assert_case(case, isa, threads, "winograd")
    assert list(forms.values()).count("winograd") >= 2  # the last dense layer, too, if its window is 3 x 3


@pytest.mark.skipif("avx2" not in ISAS, reason="this machine has no AVX2")
def test_the_most_channels_with_the_greatest_weights_of_tiles_of_two() -> None:
    """9 * 255 * 1824 * 128 is the last multiple of 16 channels below 2**29."""
    for channels, is_used in ((1824, True), (1840, False)):
        kind = TensorType((3, 3, channels), 8, False, zero_point=0, scale=0.05)
        net = NetworkBuilder(f"winograd-{channels}", kind)
        case = net.observe(net.conv(net.start, 16, weights=partial(weights_of, "least"), output=kind))
        assert ("winograd" in assert_case(case, "avx2", 1, "fastest").values()) == is_used


@each_vnni
@pytest.mark.parametrize(
    ("zero_point", "pattern", "most"), [(0, "least", 114), (128, "least", 227), (0, "greatest", 115)]
)
def test_the_most_channels_with_the_greatest_weights_of_tiles_of_four(
    isa: str, zero_point: int, pattern: str, most: int
) -> None:
    """9 * most * 128 * 255 < 2**25 with a zero point of 0, less than twice as much with one of 128, and as ends."""
    for channels, is_used in ((most, True), (most + 1, False)):
        kind = TensorType((4, 5, channels), 8, False, zero_point=zero_point, scale=0.05)
        net = NetworkBuilder(f"winograd-{channels}-{zero_point}", kind)
        weights, plain = partial(weights_of, pattern), TensorType((1, 1, 1), 8, False, scale=0.05)
        case = net.observe(net.conv(net.start, 16, weights=weights, output=plain, with_bias=False))
        assert ("winograd" in assert_case(case, isa, 1, "winograd").values()) == is_used


@each_vnni
@pytest.mark.parametrize(
    ("side", "channels", "users"),
    [(32, 16, VNNI), (8, 64, ["avx512vnni"]), (5, 16, []), (4, 256, []), (16, 128, ["avx512vnni"]), (32, 64, VNNI)],
)
def test_tiles_of_four_are_taken_where_they_are_counted_to_be_faster(
    isa: str, side: int, channels: int, users: list[str]
) -> None:
    """Not where most of a tile is dropped, nor where few tiles share many weights, which AVX-VNNI keeps transformed."""
    net = NetworkBuilder(f"taken-{side}-{channels}", TensorType((side, side, channels), scale=0.05))
    case = net.observe(net.conv(net.start, channels, weights=partial(weights_of, "middling")))
    assert ("winograd" in assert_case(case, isa, 1, "fastest").values()) == (isa in users)


@each_isa
@pytest.mark.parametrize(
    ("options", "reach"),
    [({"stride": (2, 2)}, 100), ({"dilation": (2, 2)}, 100), ({"kernel": (3, 1)}, 100), ({}, 5000)],
)
def test_other_convolutions_keep_their_form(isa: str, options: dict[str, tuple[int, int]], reach: int) -> None:
    """Other windows, and weights whose transform would not fit int16."""
    net = NetworkBuilder(f"not-winograd-{sorted(options)}-{reach}", TensorType((9, 9, 16), scale=0.05))
    case = net.observe(net.conv(net.start, 16, weights=partial(net.binary, bases=2, reach=reach), **options))  # type: ignore[arg-type]
    assert "winograd" not in assert_case(case, isa, 1, "winograd").values()


def two_bases(pattern: str, factors: tuple[int, int], shape: tuple[int, ...]) -> BinaryWeights:
    """Weights of +-a +- b."""
    random = np.random.default_rng(len(pattern))
    ends = np.broadcast_to(random.choice([-1, 1], shape), (2, *shape))
    basis = ends if pattern == "ends" else random.choice([-1, 1], (2, *shape))
    each = np.tile(np.array(factors, np.int16), (shape[0], 1))
    return BinaryWeights(basis.astype(np.int8), each, np.array([2.0**-8]))


@each_vnni
@pytest.mark.parametrize("pattern", ["ends", "random"])
@pytest.mark.parametrize("threads", [1, 2])
def test_weights_wider_than_bytes(isa: str, pattern: str, threads: int) -> None:
    """As far as their transform, 49 times as great, fits int16; they would be multiplied as two digits."""
    kind = TensorType((13, 11, 32), 8, False, zero_point=128, scale=0.05)
    for factors, is_used in (((600, 68), True), ((600, 69), False)):
        net = NetworkBuilder(f"wide-{pattern}-{factors}", kind)
        weights = partial(two_bases, pattern, factors)
        case = net.observe(net.conv(net.start, 24, weights=weights, output=kind, with_bias=False))
        for form in ("winograd", "fastest"):
            taken = assert_case(case, isa, threads, form).values()
            assert ("winograd" in taken, "digits" in taken) == (is_used, not is_used)


@each_vnni
def test_powers_of_two_run_as_int8_weights_do(isa: str) -> None:
    """Channels with +128 and -128 among them, which do not fit int8."""
    net = NetworkBuilder("powers", TensorType((16, 16, 32), 8, False, scale=0.05))
    case = net.observe(net.conv(net.start, 32, weights=partial(net.power_of_two, bits=5)))
    assert "winograd" in assert_case(case, isa, 1, "fastest").values()
