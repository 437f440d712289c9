"""The demo with a backend that was asked for; with `fpga` on a simulated board at a serial line."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from edgemeta.cli.demo.board import backend_of_demo
from edgemeta.cli.demo.service import DemoError
from edgemeta.kernels.fpga.simulate import model as simulate
from edgemeta.kernels.fpga.simulate.model import missing_tools
from edgemeta.model.file import load, save
from edgemeta.model.zoo import find
from tests.daemon.conftest import colour_model
from tests.plugins.fpga.test_backend import small_model


def test_a_backend_by_name_or_none() -> None:
    with backend_of_demo(None, small_model()) as keys:
        assert keys == {}
    with backend_of_demo("cpu", small_model()) as keys:
        assert keys == {"backend": {"name": "cpu"}}


def test_what_a_board_cannot_run_and_a_missing_tool_are_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with (
        pytest.raises(DemoError, match=r"no board can be simulated: .*layer 'conv0': requantization multiplies by"),
        backend_of_demo("fpga", load(find("resnet8-cifar10"))),
    ):
        pass
    monkeypatch.setenv("EDGEMETA_CACHE", str(tmp_path))
    monkeypatch.setattr(simulate.shutil, "which", lambda _: None)
    with (
        pytest.raises(DemoError, match="no board can be simulated: verilator is not installed"),
        backend_of_demo("fpga", small_model()),
    ):
        pass


@pytest.mark.gate("20 s: Verilator compiles a small network, and a whole demo")
def test_frames_are_classified_by_a_simulated_board(tmp_path: Path) -> None:
    pytest.importorskip("amqtt", reason="needs amqtt: pip install 'edgemeta[demo]'")
    missing = missing_tools()
    if missing is not None:
        pytest.skip(missing)
    model = tmp_path / "colour.safetensors"
    save(colour_model(), model)
    command = [sys.executable, "-c", "from edgemeta.cli.main import main; main()", "demo", "--json", "--seconds", "2"]
    done = subprocess.run(
        [*command, "--backend", "fpga", "--model", str(model), "--source", "synthetic://"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "EDGEMETA_CACHE": str(tmp_path / "cache")},
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "no board: Verilator simulates one" in done.stderr
    summary = json.loads(done.stdout)
    assert summary["backend"] == "fpga"
    assert summary["received"] > 0
    assert summary["lost"] == 0
