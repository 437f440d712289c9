"""The least logic that reaches a goal."""

import pytest

from edgemeta.kernels.fpga.generate.build import TARGETS
from edgemeta.kernels.fpga.generate.foldings import choose_foldings, predicted_bram36, predicted_lut
from edgemeta.kernels.fpga.generate.network import FpgaError
from tests.conformance.power_of_two import random_resnet8

MODEL = random_resnet8(side=8, width=4)


@pytest.mark.parametrize("cycles", [700, 1000, 2000, 5000, 20_000])
def test_every_engine_reaches_the_goal_and_no_cheaper_folding_does(cycles: int) -> None:
    network = choose_foldings(MODEL, cycles)
    assert network.interval <= cycles
    looser = choose_foldings(MODEL, 2 * cycles)
    assert sum(map(predicted_lut, looser.engines)) <= sum(map(predicted_lut, network.engines))


def test_a_goal_out_of_reach_is_refused() -> None:
    with pytest.raises(FpgaError, match=r"layer 'conv\d' takes at least \d+ clocks per image, asked for are 100: its"):
        choose_foldings(MODEL, 100)


def test_the_goal_without_a_wish_is_what_the_slowest_needs_if_that_is_more() -> None:
    network = choose_foldings(random_resnet8(side=64, width=8))
    assert network.interval > 21_000


def test_resnet8_is_predicted_to_fit_its_device() -> None:
    network = choose_foldings(random_resnet8(), 21_000)
    assert network.interval == 17_505
    assert sum(map(predicted_lut, network.engines)) < TARGETS["xc7z020"].lut
    assert sum(map(predicted_bram36, network.engines)) <= TARGETS["xc7z020"].bram36
