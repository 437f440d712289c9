"""Synthesis: no DSP block, the same twice, and what a missing Yosys says."""

from pathlib import Path

import pytest

from edgemeta.kernels.fpga.generate.foldings import choose_foldings
from edgemeta.kernels.fpga.generate.network import FpgaError, plan_network
from edgemeta.kernels.fpga.synthesize import yosys
from edgemeta.kernels.fpga.synthesize.yosys import (
    Cells,
    cells_of,
    engine_cells,
    flattened_cells,
    missing_yosys,
    port_cells,
    stream_cells,
)
from edgemeta.model.graph import INPUT
from edgemeta.model.layers import TensorType
from tests.conformance.power_of_two import PowerOfTwoBuilder, random_resnet8


def test_cells_by_type() -> None:
    counts = {"LUT6": 3, "INV": 1, "RAM32M": 2, "FDRE": 5, "RAMB18E1": 3, "RAMB36E1": 1, "DSP48E1": 2, "CARRY4": 9}
    assert cells_of(counts) == Cells(lut=12, ff=5, dsp=2, bram36=2.5)


@pytest.mark.gate("15 s: two engines are synthesized")
def test_engines_need_no_dsp_block_and_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = missing_yosys()
    if missing is not None:
        pytest.skip("no Yosys (extra `fpga`)")
    network = choose_foldings(random_resnet8(side=8, width=2))
    chosen = [each for each in network.engines if each.name in ("conv1", "add2")]
    found = [engine_cells(engine, tmp_path) for engine in chosen]
    assert all(cells.dsp == 0 and cells.lut > 0 and cells.ff > 0 for cells in found)
    monkeypatch.setattr(yosys, "_program", lambda: None)
    assert [engine_cells(engine, tmp_path) for engine in chosen] == found
    with pytest.raises(FpgaError, match=r"Yosys is not installed: pip install 'edgemeta\[fpga\]'"):
        engine_cells(chosen[0], tmp_path / "elsewhere")


@pytest.mark.slow  # a minute of processor time: an accelerator is synthesized in parts and in one piece
def test_parts_add_up_to_about_the_whole(tmp_path: Path) -> None:
    if missing_yosys() is not None:
        pytest.skip("no Yosys (extra `fpga`)")
    net = PowerOfTwoBuilder(TensorType((4, 4, 2)), 3, "clamp")
    network = plan_network(net.model(net.dense("fc", net.pool("pool", INPUT), 3)), {})
    parts = stream_cells(network, tmp_path) + port_cells(network, tmp_path)
    for engine in network.engines:
        parts += engine_cells(engine, tmp_path)
    whole = flattened_cells(network, tmp_path)
    assert whole.dsp == parts.dsp == 0
    assert whole.bram36 == parts.bram36
    assert abs(whole.lut / parts.lut - 1) < 0.1
    assert abs(whole.ff / parts.ff - 1) < 0.1
