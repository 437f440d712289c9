"""Synthesis: no DSP block, what is kept and by what, and what a missing Yosys says."""

from pathlib import Path

import pytest

from benchmarks.fpga import whole_part
from edgemeta.kernels.fpga.generate.foldings import choose_foldings
from edgemeta.kernels.fpga.generate.network import FpgaError, plan_network
from edgemeta.kernels.fpga.synthesize import yosys
from edgemeta.kernels.fpga.synthesize.yosys import (
    Cells,
    cells_of,
    count_cells,
    engine_part,
    missing_yosys,
    port_part,
)
from edgemeta.model.graph import INPUT
from edgemeta.model.layers import TensorType
from tests.conformance.power_of_two import PowerOfTwoBuilder, random_resnet8


def test_cells_by_type() -> None:
    counts = {"LUT6": 3, "INV": 1, "RAM32M": 2, "FDRE": 5, "RAMB18E1": 3, "RAMB36E1": 1, "DSP48E1": 2, "CARRY4": 9}
    assert cells_of(counts) == Cells(lut=12, ff=5, dsp=2, bram36=2.5)


@pytest.mark.gate("15 s: engines are synthesized")
def test_engines_need_no_dsp_block_and_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = yosys._program()
    if program is None:
        pytest.skip("no Yosys (extra `fpga`)")
    network = choose_foldings(random_resnet8(side=8, width=2))
    parts = [engine_part(each) for each in network.engines if each.name in ("conv1", "add2")] * 2
    told = list[tuple[int, int]]()
    found = count_cells(parts, tmp_path, lambda done, total: told.append((done, total)))
    assert all(cells.dsp == 0 and cells.lut > 0 and cells.ff > 0 for cells in found)
    assert found[:2] == found[2:]
    assert told == [(3, 4), (4, 4)]
    monkeypatch.setattr(yosys, "_program", lambda: (program[0], ["false"]))
    assert count_cells(parts, tmp_path) == found
    monkeypatch.setattr(yosys, "_program", lambda: ("another version", ["false"]))
    with pytest.raises(FpgaError, match="Yosys failed: no message"):
        count_cells(parts, tmp_path)


def test_what_a_missing_yosys_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yosys, "_program", lambda: None)
    with pytest.raises(FpgaError, match=r"Yosys is not installed: pip install 'edgemeta\[fpga\]'"):
        count_cells([], tmp_path)


def test_an_engine_is_synthesized_from_the_files_that_it_needs() -> None:
    network = plan_network(random_resnet8(side=8, width=2), {})
    needed = {engine.name: set(engine_part(engine).sources) for engine in network.engines}
    assert needed["add2"] == {"top.sv", "add.sv", "fifo.sv"}
    assert needed["pool"] == {"top.sv", "pool.sv", "fifo.sv", "memory.sv", "requantize.sv", "adder_tree.sv"}
    assert needed["conv1"] == needed["pool"] - {"pool.sv"} | {"conv.sv", "shift_add.sv", "stage.sv", "window.sv"}
    assert set(port_part(network).sources) == {"accelerator.sv", "network.sv", "framing.sv"}
    assert set(port_part(network, is_serial=True).sources) == {"board.sv", "network.sv", "serial.sv", "uart.sv"}
    assert set(whole_part(network).sources) >= needed["conv1"] - {"top.sv"} | {"fork.sv", "framing.sv"}


@pytest.mark.slow  # a minute of processor time: an accelerator is synthesized in parts and in one piece
def test_parts_add_up_to_about_the_whole(tmp_path: Path) -> None:
    if missing_yosys() is not None:
        pytest.skip("no Yosys (extra `fpga`)")
    net = PowerOfTwoBuilder(TensorType((4, 4, 2)), 3, "clamp")
    network = plan_network(net.model(net.dense("fc", net.pool("pool", INPUT), 3)), {})
    assert not network.fifos
    parts = [*map(engine_part, network.engines), port_part(network)]
    *found, whole = count_cells([*parts, whole_part(network)], tmp_path)
    summed = sum(found, Cells())
    assert whole.dsp == summed.dsp == 0
    assert whole.bram36 == summed.bram36
    assert abs(whole.lut / summed.lut - 1) < 0.1
    assert abs(whole.ff / summed.ff - 1) < 0.1
