"""Scales: nothing within the range is limited by more than rounding, 0 is exact, and the greatest value is used."""

import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemeta.toolchain.number_formats.formats import PRESETS, Block, FixedPoint, FlexFloat, Integer, PowerOfTwo

torch = pytest.importorskip("torch", reason="PyTorch is not installed (pip install 'edgemeta[train]')")

from edgemeta.toolchain.simulate.quantizer import Quantizer, Roundings, StepCounter  # noqa: E402
from edgemeta.toolchain.simulate.scales import scales  # noqa: E402

finite = st.floats(-(2.0**100), 2.0**100, width=32).filter(lambda value: value == 0 or abs(value) > 2.0**-100)
integers = st.builds(
    Integer,
    bits=st.integers(2, 16),
    signed=st.booleans(),
    symmetric=st.booleans(),
)


@given(finite, finite, integers)
def test_integers(a: float, b: float, kind: Integer) -> None:
    least, greatest = min(a, b, 0.0), max(a, b, 0.0)
    found = scales(kind, torch.tensor([min(a, b), max(a, b)]))
    scale, lowest, highest, zero = (
        float(each) for each in (found.scale, found.lowest, found.highest, found.zero_point)
    )
    assert zero == int(zero)
    assert kind.least <= zero <= kind.greatest
    assert (lowest, highest) == (kind.least - zero, kind.greatest - zero)
    assert lowest <= 0 <= highest
    if kind.symmetric:
        assert zero == 0
        assert not kind.signed or lowest == -highest
    if kind.signed or not kind.symmetric:
        assert lowest * scale <= least + 0.51 * scale
    assert highest * scale >= greatest - 0.51 * scale
    if least < greatest and (kind.signed or not kind.symmetric):  # no integer is wasted
        steps = (greatest - least) / scale if not kind.symmetric else max(-least, greatest) / scale
        assert steps >= 0.99 * (kind.greatest - (0 if kind.symmetric else kind.least))


@pytest.mark.parametrize(
    "kind",
    [
        FlexFloat(exponent=4, mantissa=3, shared_exponent=True),
        FlexFloat(exponent=5, mantissa=2, specials="ieee", shared_exponent=True),
        FlexFloat(exponent=4, mantissa=3, specials="nan", shared_exponent=True),
        FlexFloat(exponent=3, mantissa=0, shared_exponent=True),
    ],
    ids=["e4m3", "e5m2", "e4m3, nan", "e3m0"],
)
@given(largest=st.floats(2.0**-90, 2.0**100, width=32))
def test_a_shared_exponent_is_the_least_that_limits_nothing(kind: FlexFloat, largest: float) -> None:
    found = scales(kind, torch.tensor([-largest, largest / 2]))
    scale, highest = float(found.scale), float(found.highest)
    assert math.frexp(scale)[0] == 0.5
    assert highest / 2 * scale < largest <= highest * scale


def test_a_shared_exponent_does_not_bend_sums() -> None:
    """The gradient of a softmax sums to 0: not if -1.9 becomes -1.75, the greatest number of its binade."""
    quantizer = Quantizer(PRESETS["flexfp8_e5m2_shared"], "gradient", Roundings(), StepCounter(torch.nn.Module(), 0), 1)
    x = torch.tensor([-1.9, 0.9, 0.5, 0.5]).repeat(10000, 1)
    assert abs(float(quantizer(x).sum(1).mean())) < 0.01


@given(st.floats(2.0**-100, 2.0**100, width=32), st.integers(2, 5))
def test_powers_of_two_as_in_the_paper(largest: float, bits: int) -> None:
    """n1 = floor(log2(4 max|W| / 3)): Zhou and others, "Incremental network quantization", 2017."""
    found = scales(PowerOfTwo(bits=bits), torch.tensor([0.0, largest]))
    assert math.log2(float(found.scale)) == math.floor(math.log2(4 * largest / 3))
    assert (float(found.lowest), float(found.highest)) == (-1.0, 1.0)


def test_formats_without_a_scale_and_tensors_without_a_range() -> None:
    for kind in (FixedPoint(bits=8, fraction=5), FlexFloat(exponent=4, mantissa=3)):
        assert scales(kind, torch.tensor([-9.0, 9.0])).scale.tolist() == [1.0]
    for kind in (Integer(bits=8), Integer(bits=8, symmetric=True), Integer(bits=8, signed=False)):
        found = scales(kind, torch.zeros(3, 2))
        assert found.scale.tolist() == [1.0] * 3
        assert (found.lowest <= 0).all()
        assert (found.highest >= 0).all()
    shared = scales(FlexFloat(exponent=4, mantissa=3, shared_exponent=True), torch.zeros(2))
    assert 2.0**-126 <= float(shared.scale) * 480 < 2.0**-100


@pytest.mark.parametrize("name", [name for name in PRESETS if name.startswith("mx")])
def test_blocks_as_in_the_specification_of_microscaling(name: str) -> None:
    """OCP microscaling 1.0, 6.3: X = 2**(floor(log2(max|v|)) - emax), elements v / X to nearest even, saturated."""
    kind = PRESETS[name]
    assert isinstance(kind, Block)
    element = {
        "mxfp8_e4m3": ("float8_e4m3fn", 8, 448.0),
        "mxfp8_e5m2": ("float8_e5m2", 15, 57344.0),
        "mxfp6_e3m2": ("float6_e3m2fn", 4, 28.0),
        "mxfp6_e2m3": ("float6_e2m3fn", 2, 7.5),
        "mxfp4_e2m1": ("float4_e2m1fn", 2, 6.0),
        "mxint8": (None, 0, 127 / 64),
    }[name]
    rng = np.random.default_rng(1)
    x = np.ldexp(rng.normal(size=(50, 70)), rng.integers(-9, 9, (50, 70))).astype(np.float32)
    quantizer = Quantizer(kind, "activation", Roundings(), StepCounter(torch.nn.Module(), 0), 1).eval()
    found = quantizer(torch.from_numpy(x)).numpy()
    for row in range(50):
        for start in (0, 32, 64):
            block = x[row, start : start + 32]
            shared = 2.0 ** (np.floor(np.log2(np.abs(block).max())) - element[1])
            scaled = np.clip(block / shared, -element[2] if element[0] else -2.0, element[2])
            if element[0] is None:
                expected = np.clip(np.rint(scaled * 64), -128, 127) / 64
            else:
                expected = scaled.astype(getattr(ml_dtypes, element[0])).astype(np.float64)
            np.testing.assert_array_equal(found[row, start : start + 32], expected * shared)
