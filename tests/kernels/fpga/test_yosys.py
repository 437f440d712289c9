"""Synthesis: no DSP block, the same twice, and what a missing Yosys says."""

from pathlib import Path

import pytest

from edgemeta.kernels.fpga.generate.foldings import choose_foldings
from edgemeta.kernels.fpga.generate.network import FpgaError
from edgemeta.kernels.fpga.synthesize import yosys
from edgemeta.kernels.fpga.synthesize.yosys import Cells, cells_of, engine_cells, missing_yosys
from tests.conformance.power_of_two import random_resnet8


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
