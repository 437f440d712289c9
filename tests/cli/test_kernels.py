"""`edgemeta kernels` as a user runs it."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edgemeta.kernels.cuda.compile.cache import Cubins
from edgemeta.kernels.cuda.compile.compiler import CompilerError, wheel_compiler
from edgemeta.kernels.cuda.lowering import lower
from edgemeta.kernels.cuda.one_launch.plan import one_launch
from edgemeta.kernels.cuda.plan.architectures import ARCHITECTURES
from edgemeta.model.file import load, save
from edgemeta.model.zoo import find
from edgemeta_proof.machine_code.sass import SassError, disassemblers
from tests.conformance.cases import CASES


@pytest.fixture(scope="module", autouse=True)
def tools() -> None:
    try:
        wheel_compiler()
        disassemblers()
    except (CompilerError, SassError) as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of three launches, whose kernels are compiled in a second; those of a shipped one take ten."""
    path = tmp_path_factory.mktemp("models") / "small.safetensors"
    save(next(case.model for case in CASES if case.name == "conv-3x3-stride2-tf-unsigned"), path)
    return path


SHIPPED = pytest.param("resnet8-cifar10", marks=pytest.mark.slow)


@pytest.fixture(params=["small", SHIPPED])
def model(request: pytest.FixtureRequest, small: Path) -> Path:
    return small if request.param == "small" else find(request.param)


def test_a_device_without_compiler_finds_what_build_compiled(
    edgemeta_json: Callable[..., Any], tmp_path: Path, model: Path
) -> None:
    folder = tmp_path / "cubins"
    found = edgemeta_json("kernels", "build", model, "--arch", "sm_53", "--folder", folder)
    (built,), (form,) = found["builds"], found["forms"]
    plan = lower(load(model), ARCHITECTURES["sm_53"])
    assert form["forms"] == ["graph", "network"]
    assert form["reason"] == ""
    wanted = [*plan.sources, *one_launch(plan).sources]
    assert built["kernels"] == len(wanted) + 1 == len(list((folder / "sm_53").iterdir())), "and the preprocessing"
    assert built["folder"] == str(folder)
    cubins = Cubins(folder, None)
    assert all(cubins.get(source, plan.architecture).startswith(b"\x7fELF") for source in wanted)


@pytest.mark.gate("4 s: every kernel of a network is compiled and counted")
def test_report_prints_both_designs(edgemeta_json: Callable[..., Any], model: Path) -> None:
    values = edgemeta_json("kernels", "report", model, "--arch", "sm_53")
    keys = {"launches", "warp_instructions", "predicted_us", "layers"}
    assert values["arch"] == "sm_53"
    assert keys <= values.keys()
    assert keys <= values["paper_design"].keys()
    assert values["warp_instructions"] * 2 <= values["paper_design"]["warp_instructions"]
    plan = lower(load(model), ARCHITECTURES["sm_53"])
    assert values["launches"] == len(values["layers"]) == len(plan.launches)
    for way in ("busy", "plain", "graph"):
        assert 0 < values["predicted_us"][way] < values["paper_design"]["predicted_us"][way]


def test_report_without_the_proof_is_one_sentence() -> None:
    program = "import sys; sys.modules['edgemeta_proof'] = None; from edgemeta.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "kernels", "report"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr == (
        "edgemeta: kernels report needs edgemeta-proof and a CUDA compiler: pip install "
        "'edgemeta[cuda-compiler,report]', in a checkout pip install -e ./proof -e '.[cuda-compiler,report]'\n"
    )


def test_an_unknown_architecture_is_wrong_usage(edgemeta: Callable[..., Any]) -> None:
    result = edgemeta("kernels", "report", "--arch", "sm_20")
    assert result.returncode == 2
    assert "sm_53" in result.stderr


def test_build_requires_an_architecture(edgemeta: Callable[..., Any]) -> None:
    result = edgemeta("kernels", "build")
    assert result.returncode == 2
    assert "--arch" in result.stderr


def test_a_folder_that_is_a_file_is_wrong_usage(edgemeta: Callable[..., Any], tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    result = edgemeta("kernels", "build", "--arch", "sm_53", "--folder", blocked)
    assert result.returncode == 2
    assert str(blocked) in result.stderr


def test_a_folder_that_cannot_be_written_ends_the_build(
    edgemeta: Callable[..., Any], tmp_path: Path, small: Path
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    result = edgemeta("kernels", "build", small, "--arch", "sm_53", "--folder", blocked / "cubins")
    assert result.returncode == 1
    assert result.stderr == f"edgemeta: compiled kernels cannot be stored in {blocked}/cubins: Not a directory\n"


@pytest.mark.gate("5 s of processor time: kernels of a model")
def test_an_architecture_named_twice_is_built_once(
    edgemeta_json: Callable[..., Any], tmp_path: Path, small: Path
) -> None:
    twice = ("--arch", "sm_53", "--arch", "sm_53")
    builds = edgemeta_json("kernels", "build", small, *twice, "--folder", tmp_path)["builds"]
    assert [built["arch"] for built in builds] == ["sm_53"]
