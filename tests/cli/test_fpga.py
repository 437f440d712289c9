"""`edgemeta fpga`: what a build prints and writes, and what is refused."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from edgemeta.cli.fpga import fpga
from edgemeta.kernels.fpga.generate.network import FpgaError
from edgemeta.model.file import save
from tests.conformance.power_of_two import random_resnet8


@pytest.fixture(scope="module")
def model_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "small.safetensors"
    save(replace(random_resnet8(side=8, width=2), name="small"), path)
    return path


def test_build_writes_a_folder_and_prints_its_cost(model_path: Path, tmp_path: Path) -> None:
    arguments = ["build", str(model_path), "--target", "xc7z010", "--cycles", "900", "--out", str(tmp_path), "--json"]
    done = CliRunner().invoke(fpga, arguments, catch_exceptions=False)
    values = json.loads(done.output)
    assert values["cycles"] <= 900
    assert 0 < values["predicted_lut"] < 17_600
    assert "# small as a netlist" in (tmp_path / "README.md").read_text()
    assert len(list((tmp_path / "memories").iterdir())) > 20


def test_build_prints_every_engine(model_path: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(fpga, ["build", str(model_path), "--target", "xc7z020", "--out", str(tmp_path)])
    assert "conv0" in done.output
    assert f"{tmp_path}: at least " in done.output


def test_a_network_that_multiplies_is_refused(tmp_path: Path) -> None:
    arguments = ["build", "resnet8-cifar10", "--target", "xc7z020", "--out", str(tmp_path / "out")]
    with pytest.raises(FpgaError, match=r"layer 'conv0': requantization multiplies by \d+, which is no power of two"):
        CliRunner().invoke(fpga, arguments, catch_exceptions=False)
    assert not (tmp_path / "out").exists()


def test_a_goal_out_of_reach_is_refused(model_path: Path, tmp_path: Path) -> None:
    arguments = ["build", str(model_path), "--target", "xc7z020", "--cycles", "9", "--out", str(tmp_path)]
    with pytest.raises(FpgaError, match="asked for are 9"):
        CliRunner().invoke(fpga, arguments, catch_exceptions=False)
