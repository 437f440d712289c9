"""What a network costs: the sum of its parts, with residual FIFOs and ports; clocks of a simulation."""

from pathlib import Path

import pytest

from edgemeta.kernels.fpga.generate.network import FpgaError, plan_network
from edgemeta.kernels.fpga.report import fpga_report
from edgemeta.kernels.fpga.simulate.model import missing_tools
from edgemeta.kernels.fpga.synthesize import yosys
from edgemeta.model.graph import INPUT
from edgemeta.model.layers import TensorType
from tests.conformance.power_of_two import PowerOfTwoBuilder

BUILDER = PowerOfTwoBuilder(TensorType((5, 4, 3)), 5)
FIRST = BUILDER.conv("first", INPUT, 3)
NETWORK = plan_network(BUILDER.model(BUILDER.add("sum", BUILDER.conv("second", FIRST, 3), FIRST)), {})


@pytest.mark.gate("50 s: a network of three engines is synthesized and simulated")
def test_parts_are_named_once_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if missing := yosys.missing_yosys() or missing_tools():
        pytest.skip(missing)
    told = list[tuple[int, int]]()
    report = fpga_report(NETWORK, tmp_path, lambda done, total: told.append((done, total)))
    assert told == [(done, 6) for done in range(1, 7)]
    assert [layer.layers for layer in report.layers] == [("first",), ("second",), ("sum",)]
    fork, fifo = yosys.count_cells(yosys.residual_parts(*NETWORK.fifos.values()), tmp_path)
    assert report.streams == fork + fifo
    assert report.total.lut == sum(layer.cells.lut for layer in report.layers) + report.streams.lut + report.ports.lut
    assert report.total.dsp == 0
    assert NETWORK.interval <= report.cycles < report.latency
    program = yosys._program()
    assert program is not None
    monkeypatch.setattr(yosys, "_program", lambda: (program[0], ["false"]))
    assert fpga_report(NETWORK, tmp_path) == report


def test_missing_tools_are_named_before_anything_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yosys, "_program", lambda: None)
    with pytest.raises(FpgaError, match="Yosys is not installed"):
        fpga_report(NETWORK, tmp_path)
    assert not list(tmp_path.iterdir())
