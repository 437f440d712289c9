"""Products of two tensors of any size, and softmax over many channels, equal the reference on every instruction set."""

from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgemeta.kernels.cpu.library import supported_isas
from edgemeta.model import reference
from edgemeta.model.layers import MatMul, Softmax, TensorType
from edgemeta.plugins.registry import choose
from tests.conformance.networks import Case, NetworkBuilder, assert_equal_outputs

ISAS = supported_isas()


@st.composite
def products(draw: st.DrawFn) -> Case:
    """Heads, terms and positions of any number, also of less than a vector; zero points at both ends."""
    heads, terms = draw(st.integers(1, 4)), draw(st.integers(1, 40))
    height, width = draw(st.integers(1, 3)), draw(st.integers(1, 23))
    is_transposed = draw(st.booleans())
    zeros = st.sampled_from([-128, -3, 0, 127])
    source = TensorType((height, width, 3), signed=True, zero_point=draw(zeros), scale=0.05)
    net = NetworkBuilder(f"products-{heads}-{terms}-{height}-{width}-{is_transposed}", source)
    first, second = (heads * terms,) * 2 if is_transposed else (heads * height * width, heads * terms)
    names = []
    for channels in (first, second):
        kind = replace(source, shape=(height, width, channels), zero_point=draw(zeros))
        names.append(net.conv(net.start, channels, (1, 1), (1, 1), (0, 0, 0, 0), output=kind))
    results = heads * (height * width if is_transposed else terms)
    spread = np.full(results, 256**2 / 12 * (terms if is_transposed else height * width) ** 0.5)
    after = replace(source, shape=(height, width, results), zero_point=5)
    requantize = net.requantize("multiplier", spread, after)
    layer = MatMul("product", (names[0], names[1]), after, heads=heads, transposed=is_transposed, requantize=requantize)
    return net.observe(net.append(layer))


@settings(max_examples=25, deadline=None)
@given(case=products(), isa=st.sampled_from(ISAS))
def test_any_product(case: Case, isa: str) -> None:
    with closing(choose("cpu").compile(case.model, {"isa": isa, "threads": 2})) as session:
        for name, batch in case.batches():
            assert_equal_outputs(session.run(batch), reference.run(case.model, batch), f"{isa} {name}")


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("channels", [1, 197, 1025, 9000])
def test_a_softmax_of_many(channels: int, isa: str) -> None:
    """Of more than 8,192 channels that are about equal, float64 would not have the quotients exactly."""
    kind = TensorType((1, 2, channels), signed=True, zero_point=-7, scale=0.05)
    net = NetworkBuilder(f"softmax-{channels}", kind)
    powers = (2**20 - np.arange(256)).astype(np.int32)
    after = replace(kind, zero_point=-128)
    layer = Softmax("softmax", net.start, after, exponentials=powers, multiplier=min(channels * 2**14, 2**31 - 1))
    case = net.observe(net.append(layer))
    with closing(choose("cpu").compile(case.model, {"isa": isa, "threads": 1})) as session:
        for name, batch in case.batches():
            assert_equal_outputs(session.run(batch), reference.run(case.model, batch), f"{isa} {name}")
