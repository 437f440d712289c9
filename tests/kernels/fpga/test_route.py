"""A bitstream by Yosys, nextpnr and ecppack, and what is read from their results."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from edgemeta.kernels.fpga.generate.build import write_build
from edgemeta.kernels.fpga.generate.network import FpgaError, Network, plan_network
from edgemeta.kernels.fpga.synthesize import route, yosys
from edgemeta.kernels.fpga.synthesize.boards import BOARDS
from edgemeta.kernels.fpga.synthesize.route import BITSTREAM, make_bitstream, missing_router, read_route
from edgemeta.model.graph import INPUT
from edgemeta.model.layers import TensorType
from tests.conformance.power_of_two import PowerOfTwoBuilder

BOARD = "colorlight-i5"


def small_network() -> Network:
    net = PowerOfTwoBuilder(TensorType((4, 4, 2)), 3, "clamp")
    model = net.model(net.dense("fc", net.pool("pool", net.conv("conv", INPUT, 4, 3)), 3))
    return plan_network(replace(model, name="small", digest="ab" * 32), {})


def nextpnr_says(monkeypatch: pytest.MonkeyPatch, found: object) -> None:
    """Take the place of the programs: write a report as nextpnr does."""

    def run(name: str, arguments: object, folder: Path) -> None:
        if name == "nextpnr_ecp5":
            (folder / "route.json").write_text(json.dumps(found))
        else:
            (folder / BITSTREAM).write_bytes(b"bits")

    monkeypatch.setattr(route, "_synthesize", lambda folder: None)
    monkeypatch.setattr(route, "_tool", run)


def report(mhz: float) -> dict[str, object]:
    cells = ("TRELLIS_COMB", "TRELLIS_FF", "DP16KD", "MULT18X18D")
    return {
        "fmax": {"$glbnet$clk": {"achieved": mhz, "constraint": 60.0}},
        "utilization": {name: {"used": 7 + at, "available": 100} for at, name in enumerate(cells)},
    }


def test_a_report_of_nextpnr_is_read_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network = small_network()
    nextpnr_says(monkeypatch, report(77.25))
    said: list[str] = []
    found = make_bitstream(network, BOARD, tmp_path, 60, 3, said.append)
    assert (found.fmax, found.mhz, found.seed) == (77.25, 60, 3)
    assert found.used == {"comb": 7, "ff": 8, "ebr": 9, "dsp": 10}
    assert found.images_per_second == 60e6 / network.interval
    assert len(said) == 3
    assert (tmp_path / BITSTREAM).is_file()
    assert read_route(tmp_path, network.model) == found
    assert found.lines()[0].startswith(f"small on {BOARD}, placed and routed: 7 of 100 COMB (7 %), 8 of 100 FF")
    with pytest.raises(FpgaError, match=r"is a build of small \(abababababab\), not of other"):
        read_route(tmp_path, replace(network.model, name="other", digest="cd" * 32))


def test_a_clock_that_is_not_reached_leaves_no_bitstream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / BITSTREAM).write_bytes(b"of an earlier build")
    nextpnr_says(monkeypatch, report(59.5))
    with pytest.raises(FpgaError, match=r"59\.5 MHz reached, the clock is 60: ask for less by --mhz"):
        make_bitstream(small_network(), BOARD, tmp_path, 60, 1, lambda text: None)
    assert not (tmp_path / BITSTREAM).exists()


def test_another_report_and_no_build_are_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network = small_network()
    with pytest.raises(FpgaError, match=r"build\.json: No such file or directory; expected the folder of a finished"):
        read_route(tmp_path, network.model)
    (tmp_path / "build.json").write_text('{"model": "x"}')
    with pytest.raises(FpgaError, match="expected what a build for a board writes"):
        read_route(tmp_path, network.model)
    nextpnr_says(monkeypatch, {"fmax": {}, "utilization": {}})
    with pytest.raises(FpgaError, match=r"route\.json: lacks 'TRELLIS_COMB', expected a report of nextpnr"):
        make_bitstream(network, BOARD, tmp_path, 60, 1, lambda text: None)


def test_what_is_missing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(route.importlib.util, "find_spec", lambda name: None)
    assert missing_router() == "nextpnr for ECP5 is not installed: pip install 'edgemeta[fpga]'"
    monkeypatch.setattr(route.importlib.util, "find_spec", lambda name: name)
    monkeypatch.setattr(yosys, "_program", lambda: None)
    assert missing_router() == "Yosys is not installed: pip install 'edgemeta[fpga]'"


@pytest.mark.slow
def test_a_bitstream_is_made(tmp_path: Path) -> None:
    if missing_router() is not None:
        pytest.skip("nextpnr is not installed: pip install edgemeta[fpga]")
    network = small_network()
    write_build(network, BOARDS[BOARD].target, tmp_path)
    found = make_bitstream(network, BOARD, tmp_path, 50, 1, lambda text: None)
    assert found.fmax >= 50
    assert found.used["dsp"] == 0
    assert 0 < found.used["comb"] < 3_000
    assert (tmp_path / BITSTREAM).stat().st_size > 10_000
