"""What a build writes, and what its test bench finds."""

import shutil
import subprocess
from pathlib import Path

import pytest

from edgemeta.kernels.fpga.generate.build import TARGETS, Target, write_build
from edgemeta.kernels.fpga.generate.foldings import choose_foldings, predicted
from edgemeta.kernels.fpga.generate.network import FpgaError
from tests.conformance.power_of_two import random_resnet8

TARGET = TARGETS["xc7z020"]
SMALL = random_resnet8(side=8, width=2)


def run_test_bench(folder: Path) -> "subprocess.CompletedProcess[str]":
    """Compile and run it with Icarus, as the README in the folder says."""
    if shutil.which("iverilog") is None:
        pytest.skip("Icarus is not installed (Debian package iverilog)")
    sources = sorted(each.name for each in folder.glob("*.sv"))
    subprocess.run(["iverilog", "-g2012", "-s", "testbench", "-o", "bench", *sources], cwd=folder, check=True)
    return subprocess.run(["vvp", "bench"], cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("constant", [False, pytest.param(True, marks=pytest.mark.gate("6 s: a second build"))])
def test_the_test_bench_of_a_build_finds_no_wrong_logit(constant: bool, tmp_path: Path) -> None:
    network = choose_foldings(SMALL, 600, constant=constant)
    write_build(network, TARGET, tmp_path)
    done = run_test_bench(tmp_path)
    assert done.returncode == 0, done.stdout
    assert "image 3 of 3: 30 logits, 0 wrong, " in done.stdout
    assert {"README.md", "vivado.tcl", "accelerator.sv"} <= {each.name for each in tmp_path.iterdir()}
    lut, bram36 = predicted(network, is_serial=False)
    assert f"{lut} LUTs,\n{bram36:g} block RAMs" in (tmp_path / "README.md").read_text()


@pytest.mark.gate("3 s: a test bench is simulated")
def test_the_test_bench_ends_with_an_error_at_wrong_logits_and_at_none(tmp_path: Path) -> None:
    write_build(choose_foldings(SMALL, 600), TARGET, tmp_path)
    first, *others = (tmp_path / "logits.mem").read_text().splitlines()
    (tmp_path / "logits.mem").write_text("\n".join([f"{int(first, 16) ^ 1:08x}", *others, ""]))
    wrong = run_test_bench(tmp_path)
    assert wrong.returncode != 0
    assert "1 of 30 logits are wrong" in wrong.stdout + wrong.stderr
    bench = (tmp_path / "testbench.sv").read_text()
    (tmp_path / "testbench.sv").write_text(bench.replace("aresetn && given <", "given < 100 && given <"))
    hung = run_test_bench(tmp_path)
    assert hung.returncode != 0
    assert "clocks, 0 of 30 came" in hung.stdout + hung.stderr


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FpgaError, match=r"needs about \d+ LUTs and [\d.]+ block RAMs, tiny has 100 and 1: allow more"):
        write_build(choose_foldings(SMALL), Target("tiny", 100, 1), tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_folder_with_other_files_is_refused_and_kept(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("mine")
    with pytest.raises(FpgaError, match="holds other files, expected a new folder or that of an earlier netlist"):
        write_build(choose_foldings(SMALL), TARGET, tmp_path)
    assert (tmp_path / "README.md").read_text() == "mine"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_second_build_leaves_nothing_of_the_first(tmp_path: Path) -> None:
    twice, once = tmp_path / "twice", tmp_path / "once"
    write_build(choose_foldings(SMALL, 600), TARGET, twice)
    slower = choose_foldings(SMALL, 5000, constant=True)
    for folder in (twice, once):
        write_build(slower, TARGET, folder)
    names = [sorted(str(path.relative_to(folder)) for path in folder.rglob("*")) for folder in (twice, once)]
    assert names[0] == names[1]
