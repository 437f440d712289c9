"""Convolutions with groups, dilation or wide weights: every candidate, every access checked."""

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from edgemeta.kernels.cuda.lowering import candidate_counts, lower
from edgemeta.kernels.cuda.plan.architectures import ARCHITECTURES
from edgemeta.model import reference
from edgemeta.model.graph import INPUT
from edgemeta.model.layers import TensorType
from edgemeta.model.prove import prove
from tests.conformance.networks import Case, NetworkBuilder, assert_equal_outputs
from tests.emulation.executor import Emulator

SIGNED = TensorType((1, 1, 1), zero_point=-5)
MORE = pytest.mark.gate("3 s each: modules with every access checked")


def depthwise(net: NetworkBuilder) -> str:
    """Two channels for each of the input's; then one for each, behind a ring that is wider than its own."""
    twofold = net.conv(INPUT, 6, (3, 3), groups=3, output=SIGNED)
    wide = net.conv(twofold, 6, (1, 5), (1, 2), (0, 3, 0, 2), groups=6, output=SIGNED)
    narrow = net.conv(twofold, 6, (3, 2), (1, 2), (1, 1, 1, 1), groups=6, output=SIGNED)
    return net.concat(wide, narrow)


def groups(net: NetworkBuilder) -> str:
    """Groups that begin inside of a word, of inputs and of outputs."""
    spread = net.conv(INPUT, 15, (1, 1), padding=(0, 0, 0, 0), output=SIGNED)
    return net.conv(spread, 18, (2, 3), (2, 1), groups=3, form="table", output=SIGNED)


def dilated(net: NetworkBuilder) -> str:
    return net.conv(INPUT, 7, (3, 3), (1, 1), (4, 2, 4, 2), dilation=(4, 2), output=SIGNED)


def wide_weights(net: NetworkBuilder) -> str:
    wide = partial(net.binary, bases=8, reach=32767)
    whole = net.conv(INPUT, 6, (1, 9), padding=(0, 4, 0, 4), weights=wide, output=SIGNED)
    return net.conv(whole, 6, groups=6, weights=wide, output=SIGNED)


def network(append: Callable[[NetworkBuilder], str]) -> Case:
    net = NetworkBuilder(append.__name__, TensorType((6, 8, 3), 5, zero_point=7))
    case = net.observe(append(net))
    prove(case.model)
    return case


@pytest.mark.parametrize("architecture", ["sm_53", pytest.param("sm_87", marks=MORE)])
@pytest.mark.parametrize(
    "append", [depthwise, *(pytest.param(each, marks=MORE) for each in (groups, dilated, wide_weights))]
)
def test_every_candidate_equals_the_reference(append: Callable[[NetworkBuilder], str], architecture: str) -> None:
    case, target = network(append), ARCHITECTURES[architecture]
    counts = candidate_counts(case.model, target)
    for choice in range(3):
        plan = lower(case.model, target, {name: min(choice, count - 1) for name, count in counts.items()})
        emulator = Emulator(plan, 3, "checked" if choice == 0 else "quick")
        for name, batch in case.batches():
            assert_equal_outputs(emulator.run(batch), reference.run(case.model, batch), name)


def test_pixels_of_a_thread_are_a_divisor_of_the_width() -> None:
    seen = {}
    for width in (1, 6, 8, 13):
        net = NetworkBuilder("widths", TensorType((4, width, 3)))
        case = net.observe(net.conv(INPUT, 3, groups=3, output=SIGNED))
        count = candidate_counts(case.model, ARCHITECTURES["sm_53"])["conv0"]
        plans = [lower(case.model, ARCHITECTURES["sm_53"], {"conv0": choice}) for choice in range(count)]
        seen[width] = sorted(plan.launches[0].tile["pixels"] for plan in plans)
    assert seen == {1: [1], 6: [1, 2, 3], 8: [1, 2, 4], 13: [1]}


def test_a_large_map_uses_the_most_pixels_on_a_small_device() -> None:
    net = NetworkBuilder("large", TensorType((112, 112, 3)))
    model = net.observe(net.conv(INPUT, 3, groups=3, output=SIGNED)).model
    pixels = {name: lower(model, ARCHITECTURES[name]).launches[0].tile["pixels"] for name in ("sm_53", "sm_90")}
    assert pixels == {"sm_53": 4, "sm_90": 1}


def test_weights_are_as_narrow_as_they_fit() -> None:
    """Bytes where four products are one instruction; a depthwise convolution has none to add to another."""

    def bits(append: Callable[[NetworkBuilder], str], architecture: str) -> list[int]:
        launches = lower(network(append).model, ARCHITECTURES[architecture]).launches
        return [dict(launch.source.defines)["WEIGHT_BITS"] for launch in launches if launch.source.entry == "grouped"]

    assert bits(dilated, "sm_53") == [16]
    assert bits(dilated, "sm_87") == [8]
    assert bits(depthwise, "sm_87") == [8, 16, 16]
    assert bits(wide_weights, "sm_87") == [32, 32]
    assert np.all(np.array(bits(groups, "sm_62")) == 16)
