"""Predicted times of both forms of a network: made from machine code, stored, and found only for the same kernels."""

import logging
from dataclasses import replace
from pathlib import Path

import pytest

from edgemeta.kernels.cuda.compile.compiler import Compiler, CompilerError
from edgemeta.kernels.cuda.lowering import lower
from edgemeta.kernels.cuda.machine_code.cost import cost
from edgemeta.kernels.cuda.one_launch.choice import Prediction, predict, store, stored
from edgemeta.kernels.cuda.one_launch.plan import one_launch
from edgemeta.kernels.cuda.plan.architectures import ARCHITECTURES
from edgemeta.kernels.cuda.plan.launch_plan import LaunchPlan, UnsupportedError
from tests.conformance.cases import residual_block

CASE = residual_block("table")
SLOWER = Prediction("Jetson Nano", 3, graph_us=20.0, network_us=30.5)


def forms(architecture: str = "sm_53", multiprocessors: int | None = None) -> tuple[LaunchPlan, LaunchPlan]:
    plan = lower(CASE.model, ARCHITECTURES[architecture])
    return plan, one_launch(plan, multiprocessors)


def test_the_shorter_time_is_preferred_and_the_reason_names_both() -> None:
    assert not SLOWER.prefers_network
    assert str(SLOWER) == ("20.0 us as a CUDA graph of 3 launches, 30.5 us as one launch, predicted for a Jetson Nano")
    faster = replace(SLOWER, network_us=10.0)
    assert faster.prefers_network
    assert str(faster).startswith("10.0 us as one launch, 20.0 us as a CUDA graph")


def test_a_stored_prediction_is_found_for_the_same_kernels_only(tmp_path: Path) -> None:
    store(tmp_path, *forms(), SLOWER)
    assert stored(tmp_path, *forms()) == SLOWER
    assert stored(tmp_path, *forms("sm_62")) is None
    assert stored(tmp_path, *forms(multiprocessors=2)) is None, "it has more blocks"


@pytest.mark.parametrize("damage", ["", "{", "[]", "{}", '{"device": "x", "launches": 3, "graph_us": "?"}'])
def test_a_damaged_prediction_is_ignored_and_logged(
    damage: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store(tmp_path, *forms(), SLOWER)
    (file,) = (tmp_path / "launch").iterdir()
    file.write_text(damage)
    with caplog.at_level(logging.WARNING):
        assert stored(tmp_path, *forms()) is None
    assert f"predicted times in {file} cannot be read" in caplog.text


def test_a_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CompilerError, match=r"predicted times cannot be stored in .*file: Not a directory"):
        store(tmp_path / "file", *forms(), SLOWER)


def test_no_prediction_without_a_description(compiler: Compiler) -> None:
    with pytest.raises(UnsupportedError, match="no device of sm_72 is described"):
        predict(*forms("sm_72"), compiler)


@pytest.mark.gate("10 s: a network is compiled in both forms and simulated")
@pytest.mark.usefixtures("disassembler")
def test_a_prediction_has_the_times_of_the_report(compiler: Compiler) -> None:
    plan, joined = forms()
    prediction, build = predict(plan, joined, compiler)
    assert prediction.launches == len(plan.launches)
    for time, form in ((prediction.graph_us, plan), (prediction.network_us, joined)):
        assert time == pytest.approx(cost(form, CASE.model, compiler).predicted_us["graph"], abs=0.06)
    assert build.cubin.startswith(b"\x7fELF")
