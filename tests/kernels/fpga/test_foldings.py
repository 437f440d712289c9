"""The least logic that reaches a goal, and what a build writes."""

import shutil
import subprocess
from pathlib import Path

import pytest

from edgemeta.kernels.fpga.generate.build import TARGETS, Target, write_build
from edgemeta.kernels.fpga.generate.cost import predicted_bram36, predicted_lut
from edgemeta.kernels.fpga.generate.foldings import choose_foldings, predicted
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
    assert network.interval == 17_473
    assert sum(map(predicted_lut, network.engines)) < TARGETS["xc7z020"].lut
    assert sum(map(predicted_bram36, network.engines)) <= TARGETS["xc7z020"].bram36


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FpgaError, match=r"needs about \d+ LUTs and [\d.]+ block RAMs, tiny has 100 and 1: allow more"):
        write_build(choose_foldings(MODEL), Target("tiny", 100, 1), tmp_path)


@pytest.mark.parametrize("constant", [False, pytest.param(True, marks=pytest.mark.gate("6 s: a second build"))])
def test_the_test_bench_of_a_build_finds_no_wrong_logit(constant: bool, tmp_path: Path) -> None:
    if shutil.which("iverilog") is None:
        pytest.skip("Icarus is not installed (Debian package iverilog)")
    network = choose_foldings(random_resnet8(side=8, width=2), 600, constant=constant)
    write_build(network, TARGETS["xc7z020"], tmp_path)
    sources = sorted(each.name for each in tmp_path.glob("*.sv"))
    subprocess.run(["iverilog", "-g2012", "-s", "testbench", "-o", "bench", *sources], cwd=tmp_path, check=True)
    done = subprocess.run(["vvp", "bench"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("30 logits, 0 wrong, "), done.stdout
    assert {"README.md", "vivado.tcl", "accelerator.sv"} <= {each.name for each in tmp_path.iterdir()}
    assert set(predicted(network)) == {engine.name for engine in network.engines}
