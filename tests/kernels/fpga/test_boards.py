"""Boards: clocks that a PLL can make, pins, and the top module."""

import pytest

from edgemeta.kernels.fpga.generate.network import FpgaError, plan_network
from edgemeta.kernels.fpga.synthesize.boards import BOARDS, board_top, constraints, pll
from edgemeta.model.graph import INPUT
from edgemeta.model.layers import TensorType
from tests.conformance.power_of_two import PowerOfTwoBuilder


@pytest.mark.parametrize("wished", [5, 12.5, 33.3, 60, 66, 82.5, 99.9, 100, 123.4])
def test_a_pll_gives_the_nearest_frequency_below_within_the_device_s_limits(wished: float) -> None:
    found = pll(25.0, wished)
    assert found.mhz == 25.0 * found.feedback / found.reference <= wished
    assert wished - found.mhz < 0.06 * wished
    assert 400 <= found.mhz * found.output <= 800
    assert 25.0 / found.reference >= 3.125


def test_a_frequency_out_of_reach_is_refused() -> None:
    with pytest.raises(FpgaError, match="2 MHz cannot be made of the board's 25 MHz, expected 5 or more"):
        pll(25.0, 2)


def test_the_top_module_has_the_network_s_sizes_and_bits_of_three_megabaud() -> None:
    net = PowerOfTwoBuilder(TensorType((4, 4, 2)), 3, "clamp")
    network = plan_network(net.model(net.dense("fc", net.pool("pool", INPUT), 3)), {})
    text = board_top(network, BOARDS["ulx3s-85f"], pll(25.0, 60.0), 3_000_000)
    assert ".IN_WORDS(32), .OUT_WORDS(3), .OUT(8), " in text.replace(".OUT(32)", ".OUT(8)")
    assert ".DIVIDER(20)" in text
    assert ".CLKI_DIV(5), .CLKFB_DIV(12), .CLKOP_DIV(13)" in text

    with pytest.raises(FpgaError, match="10 MHz cannot be divided into 3000000 baud"):
        board_top(network, BOARDS["ulx3s-85f"], pll(25.0, 10.0), 3_000_000)


def test_pins_are_those_of_the_board() -> None:
    assert constraints(BOARDS["ulx3s-85f"]).count("LOCATE COMP") == 3
    assert 'LOCATE COMP "tx" SITE "L4";' in constraints(BOARDS["ulx3s-85f"])
    assert 'LOCATE COMP "clk" SITE "P3";' in constraints(BOARDS["colorlight-i9"])
    assert 'FREQUENCY PORT "clk" 25 MHZ;' in constraints(BOARDS["colorlight-i5"])
