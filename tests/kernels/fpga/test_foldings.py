"""The least logic that reaches a goal."""

import json

import pytest

from benchmarks.result_file import RESULTS
from edgemeta.kernels.fpga.generate.build import TARGETS
from edgemeta.kernels.fpga.generate.foldings import choose_foldings, predicted, predicted_lut
from edgemeta.kernels.fpga.generate.lines import fitting
from edgemeta.kernels.fpga.generate.network import FpgaError
from edgemeta.kernels.fpga.synthesize.boards import BOARDS
from edgemeta.model.file import load
from edgemeta.model.zoo import find
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
    lut, bram36 = predicted(network, is_serial=False)
    assert lut < TARGETS["xc7z020"].lut
    assert bram36 <= TARGETS["xc7z020"].bram36


def test_predicted_luts_are_those_that_were_counted() -> None:
    """Of the shipped network as a whole, with residual FIFOs and AXI ports."""
    counted = json.loads((RESULTS / "fpga.json").read_text("utf-8"))
    lut, _ = predicted(choose_foldings(load(find(counted["model"]))), is_serial=False)
    assert abs(lut / counted["lut"] - 1) < 0.03


def test_predicted_blocks_are_those_of_routed_boards() -> None:
    """Exactly, but for two tables of lines that Yosys keeps in blocks, and one block at 32,768 clocks."""
    apart = {}
    for run in json.loads((RESULTS / "fpga-route.json").read_text("utf-8"))["runs"]:
        target = BOARDS[run["target"]].target
        network = fitting(choose_foldings(load(find(run["model"])), run["interval"]), target)
        _, bram36 = predicted(network, is_serial=target.is_serial)
        apart[run["target"], run["interval"]] = 2 * bram36 - run["used"]["ebr"]
    assert apart.pop(("ulx3s-25f", 262_144)) == -2
    assert apart.pop(("ulx3s-85f", 32_768)) == 1
    assert len(apart) >= 3
    assert not any(apart.values())
