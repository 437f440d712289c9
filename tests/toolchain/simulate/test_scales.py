"""Scales: nothing within the range is limited by more than rounding, 0 is exact, and the greatest value is used."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemeta.toolchain.simulate.formats import FixedPoint, FlexFloat, Integer, PowerOfTwo

torch = pytest.importorskip("torch", reason="PyTorch is not installed (pip install 'edgemeta[train]')")

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
    if kind.signed or not kind.symmetric:
        assert lowest * scale <= least + 0.51 * scale
    assert highest * scale >= greatest - 0.51 * scale
    if least < greatest and (kind.signed or not kind.symmetric):  # no integer is wasted
        steps = (greatest - least) / scale if not kind.symmetric else max(-least, greatest) / scale
        assert steps >= 0.99 * (kind.greatest - (0 if kind.symmetric else kind.least))


@given(st.floats(2.0**-100, 2.0**100, width=32))
def test_a_shared_exponent_puts_the_largest_magnitude_into_the_greatest_binade(largest: float) -> None:
    kind = FlexFloat(exponent=4, mantissa=3, shared_exponent=True)
    found = scales(kind, torch.tensor([-largest, largest / 2]))
    scaled = largest / float(found.scale)
    assert math.frexp(scaled)[1] - 1 == kind.greatest_exponent
    assert float(found.highest) == 480.0


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
