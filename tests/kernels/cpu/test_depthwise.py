"""Depthwise convolutions of any window equal the reference, on every instruction set."""

from contextlib import closing
from functools import partial

from hypothesis import given, settings
from hypothesis import strategies as st

from edgemeta.kernels.cpu.library import supported_isas
from edgemeta.model import reference
from edgemeta.model.layers import TensorType
from edgemeta.plugins.registry import choose
from tests.conformance.networks import Case, NetworkBuilder, assert_equal_outputs

ISAS = supported_isas()
WINDOWS = [(3, 3), (3, 3), (3, 3), (1, 3), (3, 2), (5, 5), (3, 8)]


@st.composite
def depthwise(draw: st.DrawFn) -> Case:
    """Often the window that has a kernel of its own, 3 x 3 without dilation; maps of any size, with any padding."""
    kernel = draw(st.sampled_from(WINDOWS))
    stride = draw(st.sampled_from([(1, 1), (2, 2), (1, 2), (2, 1)]))
    dilation = draw(st.sampled_from([(1, 1), (1, 1), (1, 1), (2, 1), (1, 2)]))
    height, width = ((size - 1) * step + 1 for size, step in zip(kernel, dilation, strict=True))
    channels = draw(st.integers(2, 50))
    shape = (height + draw(st.integers(0, 7)), width + draw(st.integers(0, 14)), channels)
    signed = draw(st.booleans())
    kind = TensorType(shape, signed=signed, zero_point=draw(st.integers(-3, 3)) if signed else 7, scale=0.05)
    net = NetworkBuilder(f"depthwise-{kernel}-{stride}-{dilation}-{shape}", kind)
    padding = draw(st.tuples(*[st.integers(0, 2)] * 4))
    # Within int8, within the sum of two int8, and beyond it.
    weights = draw(st.sampled_from([net.fixed, partial(net.power_of_two, bits=5), partial(net.binary, bases=2)]))
    first = net.conv(net.start, channels, (1, 1), (1, 1), (0, 0, 0, 0), output=kind)
    last = net.conv(
        first, channels, kernel, stride, padding, groups=channels, dilation=dilation, weights=weights, output=kind
    )
    return net.observe(last)


@settings(max_examples=150, deadline=None)
@given(case=depthwise(), isa=st.sampled_from(ISAS), threads=st.integers(1, 3))
def test_any_depthwise_convolution(case: Case, isa: str, threads: int) -> None:
    with closing(choose("cpu").compile(case.model, {"isa": isa, "threads": threads})) as session:
        for name, batch in case.batches():
            assert_equal_outputs(session.run(batch), reference.run(case.model, batch), f"{isa} {name}")
