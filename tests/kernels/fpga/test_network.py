"""Which layers and models become a netlist, and how deep residual FIFOs must be."""

from dataclasses import replace

import numpy as np
import pytest

from edgemeta.kernels.fpga.generate.engines import Range
from edgemeta.kernels.fpga.generate.network import FpgaError, plan_network, unsupported
from edgemeta.kernels.fpga.generate.verilog import network_source
from edgemeta.model.graph import INPUT
from edgemeta.model.layers import Add, AveragePool, Conv, MaxPool, Multiplier, ShiftTable, TensorType
from edgemeta.model.weights import BinaryWeights, FixedWeights
from tests.conformance.power_of_two import PowerOfTwoBuilder, random_resnet8

REMEDY = "which is no power of two; edgemeta quantize --scheme incremental makes networks that do not multiply"
SOURCE = TensorType((8, 8, 4))
WEIGHTS = FixedWeights(np.ones((4, 3, 3, 4), np.int8), 8, np.ones(1))
CONV = Conv("c", INPUT, SOURCE, weights=WEIGHTS, padding=(1, 1, 1, 1))
ADD = Add("a", (INPUT, "b"), SOURCE, multipliers=(4, 0), shift=2, lo=-128, hi=127)
POOL = AveragePool(
    "p",
    INPUT,
    TensorType((1, 1, 4)),
    kernel=(8, 8),
    stride=(8, 8),
    requantize=ShiftTable(np.zeros(1, np.uint8), np.zeros((1, 256), np.int8)),
)


def multiplier(value: int, shift: int) -> Multiplier:
    return Multiplier(np.array([value], np.int32), np.array([shift], np.uint8), -128, 127)


@pytest.mark.parametrize(
    ("layer", "reason"),
    [
        (CONV, None),
        (ADD, None),
        (POOL, None),
        (replace(CONV, requantize=multiplier(8, 5)), None),
        (replace(CONV, requantize=multiplier(3, 5)), f"requantization multiplies by 3, {REMEDY}"),
        (replace(CONV, requantize=multiplier(0, 5)), f"requantization multiplies by 0, {REMEDY}"),
        (replace(CONV, requantize=multiplier(8, 2)), "requantization enlarges accumulators"),
        (replace(CONV, requantize=multiplier(1, 31)), None),
        (replace(CONV, requantize=multiplier(1, 32)), "requantization shifts by 32 bits, supported are up to 31"),
        (replace(CONV, requantize=multiplier(1, 40)), "requantization shifts by 40 bits, supported are up to 31"),
        (replace(CONV, stride=(1, 2)), "Conv has a stride of 1, 2, supported are 1, 1 and 2, 2"),
        (replace(CONV, groups=2), "Conv has 2 groups, supported is 1"),
        (replace(CONV, dilation=(2, 2)), "Conv has a dilation, which is not supported"),
        (
            replace(CONV, weights=FixedWeights(np.ones((4, 5, 5, 4), np.int8), 8, np.ones(1))),
            "Conv has a kernel of 5x5, supported are 1x1 and 3x3",
        ),
        (
            replace(
                CONV, weights=BinaryWeights(np.ones((1, 4, 3, 3, 4), np.int8), np.ones((4, 1), np.int16), np.ones(1))
            ),
            "binary weights are not supported; power-of-two and fixed ones are",
        ),
        (replace(ADD, multipliers=(4, 3)), f"Add multiplies by 3, {REMEDY}"),
        (replace(POOL, kernel=(4, 4)), "AveragePool is supported for the whole map only, without padding"),
        (MaxPool("m", INPUT, SOURCE, kernel=(2, 2), stride=(2, 2)), "MaxPool is not supported"),
    ],
)
def test_unsupported(layer: Conv, reason: str | None) -> None:
    assert unsupported(layer, [SOURCE, SOURCE]) == reason


def test_a_model_that_cannot_become_a_netlist_is_refused() -> None:
    net = PowerOfTwoBuilder(TensorType((4, 4, 3)))
    x = net.conv("c", INPUT, 2)
    single = net.model(net.dense("d", x, 2))
    with pytest.raises(FpgaError, match="the model has 2 outputs, supported is 1"):
        plan_network(replace(single, outputs=("c", "d")), {})
    with pytest.raises(FpgaError, match="the output 'c' is read by a layer, too"):
        plan_network(replace(single, layers=(*single.layers[:1], replace(single.layers[1])), outputs=("c",)), {})


@pytest.mark.parametrize(
    ("lo", "hi", "bits"), [(0, 127, 7), (0, 255, 8), (-128, 127, 8), (-1, 0, 1), (-5, 3, 4), (0, 0, 1)]
)
def test_bits_of_a_range(lo: int, hi: int, bits: int) -> None:
    assert Range(lo, hi).bits == bits


def test_the_shortcut_of_a_block_waits_in_a_fifo_of_rows() -> None:
    """Word 0 of the sum needs input row 2 (two 3x3 convolutions): 3 rows of 8 * 4 words, and a row for each of both."""
    net = PowerOfTwoBuilder(TensorType((8, 8, 3)), 3)
    x = net.conv("first", INPUT, 4)
    model = net.model(net.add("sum", net.conv("c", net.conv("b", x, 4), 4), x))
    assert plan_network(model, {}).fifos == {("sum", 1): 3 * 32 + 2 * 32 + 64}


def test_no_engine_multiplies() -> None:
    """Constants are multiplied while the design is elaborated; data never are."""
    source = network_source(plan_network(random_resnet8(side=8, width=4), {}))
    assert "*" not in source
