"""Every kernel variant of the shipped networks, compiled for every architecture, against the recorded table."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.cuda_resources import measure, row
from edgemeta.kernels.cuda.compile.compiler import Compiler
from edgemeta.kernels.cuda.lowering import candidate_counts, lower
from edgemeta.kernels.cuda.plan.architectures import ARCHITECTURES
from edgemeta.model.file import load
from edgemeta.model.zoo import find, names

REWRITE = "python benchmarks/cuda_resources.py rewrites the table"


EVERYTHING = pytest.mark.gate("60 s of processor time: each kernel of each network, compiled for each architecture")


@pytest.fixture(scope="module")
def measured(compiler: Compiler) -> tuple[dict[str, Any], list[str]]:
    return measure(compiler)


@pytest.fixture(scope="module")
def recorded(repository: Path) -> dict[str, Any]:
    table = json.loads((repository / "benchmarks" / "results" / "cuda-resources.json").read_text("utf-8"))
    launches: dict[str, Any] = table["launches"]
    return launches


@EVERYTHING
def test_nothing_spills_and_everything_fits(measured: tuple[dict[str, Any], list[str]]) -> None:
    assert measured[1] == []


@EVERYTHING
def test_nothing_uses_more_than_the_table_states(
    measured: tuple[dict[str, Any], list[str]], recorded: dict[str, Any]
) -> None:
    grown = [
        f"{name}: {key} {values[key]}, recorded {recorded[name][key]}"
        for name, values in measured[0].items()
        for key in ("registers", "shared_bytes")
        if name in recorded and values[key] > recorded[name][key]
    ]
    assert not grown, REWRITE


@EVERYTHING
def test_the_table_has_every_launch_and_no_other(
    measured: tuple[dict[str, Any], list[str]], recorded: dict[str, Any]
) -> None:
    assert {name: values["kernel"] for name, values in measured[0].items()} == {
        name: values["kernel"] for name, values in recorded.items()
    }, REWRITE


def test_the_table_covers_every_generation(recorded: dict[str, Any]) -> None:
    assert {name.split()[1] for name in recorded if "(" not in name} == set(ARCHITECTURES)


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", names())
def test_no_tile_that_tuning_may_choose_spills(compiler: Compiler, name: str, architecture: str) -> None:
    model, target = load(find(name)), ARCHITECTURES[architecture]
    counts = candidate_counts(model, target)
    found = []
    for index in range(max(counts.values())):
        choices = {layer: min(index, count - 1) for layer, count in counts.items()}
        for launch in lower(model, target, choices).launches:
            found += [f"{launch.layers} {dict(launch.tile)}: {fault}" for fault in row(launch, target, compiler)[1]]
    assert found == []
