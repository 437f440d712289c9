"""Predicted times of all forms of a network: made from machine code, stored, and found only for the same kernels."""

import logging
from dataclasses import replace
from pathlib import Path

import pytest

from edgemeta.kernels.cuda.compile.compiler import Compiler, CompilerError
from edgemeta.kernels.cuda.lowering import lower
from edgemeta.kernels.cuda.machine_code.cost import cost
from edgemeta.kernels.cuda.one_launch.choice import (
    CLUSTER,
    GRAPH,
    NETWORK,
    Forms,
    Prediction,
    forms_of,
    predict,
    store,
    stored,
)
from edgemeta.kernels.cuda.plan.architectures import ARCHITECTURES
from edgemeta.kernels.cuda.plan.launch_plan import UnsupportedError
from edgemeta.model.file import load
from edgemeta.model.zoo import find
from tests.conformance.cases import residual_block

CASE = residual_block("table")
SLOWER = Prediction("Jetson Nano", 3, {GRAPH: 20.0, NETWORK: 30.5})


def forms(architecture: str = "sm_53", multiprocessors: int | None = None) -> Forms:
    return forms_of(lower(CASE.model, ARCHITECTURES[architecture]), multiprocessors)


def test_the_shortest_time_is_preferred_and_the_reason_names_all() -> None:
    assert SLOWER.fastest == GRAPH
    assert str(SLOWER) == ("20.0 us as a CUDA graph of 3 launches, 30.5 us as one launch, predicted for a Jetson Nano")
    faster = replace(SLOWER, times_us={GRAPH: 20.0, NETWORK: 10.0})
    assert faster.fastest == NETWORK
    assert str(faster).startswith("10.0 us as one launch, 20.0 us as a CUDA graph")
    cluster = Prediction("H200", 3, {GRAPH: 20.0, NETWORK: 10.0, CLUSTER: 9.0})
    assert cluster.fastest == CLUSTER
    assert str(cluster).startswith("9.0 us as one launch of a cluster, 10.0 us as one launch, 20.0 us as a CUDA graph")
    assert replace(SLOWER, times_us={GRAPH: 10.0, NETWORK: 10.0}).fastest == GRAPH, "it is compiled sooner"


def test_the_forms_of_an_architecture() -> None:
    assert list(forms()) == [GRAPH, NETWORK]
    assert list(forms("sm_90")) == [GRAPH, NETWORK, CLUSTER]
    assert list(forms("sm_90", multiprocessors=1)) == [GRAPH, NETWORK], "a cluster of one block is none"


def test_a_stored_prediction_is_found_for_the_same_kernels_only(tmp_path: Path) -> None:
    store(tmp_path, forms(), SLOWER)
    assert stored(tmp_path, forms()) == SLOWER
    assert stored(tmp_path, forms("sm_62")) is None
    assert stored(tmp_path, forms(multiprocessors=2)) is None, "it has more blocks"


@pytest.mark.parametrize("damage", ["", "{", "[]", "{}", '{"device": "x", "launches": 3, "times_us": {"graph": "?"}}'])
def test_a_damaged_prediction_is_ignored_and_logged(
    damage: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store(tmp_path, forms(), SLOWER)
    (file,) = (tmp_path / "launch").iterdir()
    file.write_text(damage)
    with caplog.at_level(logging.WARNING):
        assert stored(tmp_path, forms()) is None
    assert f"predicted times in {file} cannot be read" in caplog.text


def test_a_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CompilerError, match=r"predicted times cannot be stored in .*file: Not a directory"):
        store(tmp_path / "file", forms(), SLOWER)


def test_no_prediction_without_a_description(compiler: Compiler) -> None:
    with pytest.raises(UnsupportedError, match="no device of sm_72 is described"):
        predict(forms("sm_72"), compiler)


@pytest.mark.gate("10 s each: a network is compiled in all forms and simulated")
@pytest.mark.usefixtures("disassembler")
@pytest.mark.parametrize("architecture", ["sm_53", "sm_90"])
def test_a_prediction_has_the_times_of_the_report(architecture: str, compiler: Compiler) -> None:
    every = forms(architecture)
    prediction, builds = predict(every, compiler)
    assert prediction.launches == len(every[GRAPH].launches)
    assert list(prediction.times_us) == list(every)
    for name, form in every.items():
        expected = cost(form, CASE.model, compiler).predicted_us["graph"]
        assert prediction.times_us[name] == pytest.approx(expected, abs=0.06)
        assert all(builds[source].cubin.startswith(b"\x7fELF") for source in form.sources)


@pytest.mark.slow  # a minute of processor time: a shipped network is compiled in all forms and simulated
@pytest.mark.usefixtures("disassembler")
def test_the_shipped_network_is_predicted_to_be_fastest_as_a_cluster(compiler: Compiler) -> None:
    """What keeps that form: docs/notebook/0055-one-launch-of-a-cluster.md."""
    plan = lower(load(find("resnet8-cifar10")), ARCHITECTURES["sm_90"])
    prediction, _ = predict(forms_of(plan), compiler)
    assert prediction.fastest == CLUSTER
    assert prediction.times_us[CLUSTER] < 0.98 * prediction.times_us[NETWORK]
