"""Costs on a device as goals of a search."""

import sys
from pathlib import Path
from typing import Any

import pytest

from edgemeta.kernels.cuda.compile.compiler import wheel_compiler
from edgemeta.kernels.cuda.lowering import lower
from edgemeta.kernels.cuda.plan.architectures import ARCHITECTURES
from edgemeta.toolchain.errors import MissingExtraError
from edgemeta.toolchain.search import device_costs
from edgemeta.toolchain.search.device_costs import warp_instructions
from edgemeta.toolchain.search.objective import bits_of
from edgemeta.toolchain.search.report import html
from edgemeta.toolchain.search.result import front, outcomes
from edgemeta.toolchain.search.run import search
from edgemeta_proof.machine_code.cost import cost
from tests.kernels.conftest import compiler, disassembler  # noqa: F401 (fixtures)

NANO = ARCHITECTURES["sm_53"]


@pytest.mark.gate("3 s: kernels are compiled")
@pytest.mark.usefixtures("compiler", "disassembler")
def test_instructions_are_counted_for_every_trial(config: Any, tmp_path: Path) -> None:
    goals = ["accuracy", "bytes", "warp_instructions"]
    entries = {"weights": [2, 4, 8], "features": [2, 4, 8], "trials": 3, "seeds": 2, "scheme": "fixed"}
    searched = search(config(goals=goals, **entries), tmp_path)
    found = outcomes(searched.trials)
    assert len(found) == 3
    for trial, outcome in zip(searched.trials, found, strict=True):
        model = searched.setup.network.build(bits_of(trial.params))
        counted = cost(lower(model, NANO), model, wheel_compiler()).warp_instructions
        assert outcome.device == {"warp_instructions": counted}
        assert outcome.costs == (counted,)
        assert outcome.values()["warp_instructions"] == counted
    assert front(found)
    assert "<th>warp instructions</th>" in html(searched)


def test_a_missing_compiler_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_costs, "wheel_library", lambda: None)
    with pytest.raises(MissingExtraError, match=r"warp_instructions .*pip install 'edgemeta\[cuda-compiler,report\]'"):
        warp_instructions(NANO)


def test_a_missing_proof_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "edgemeta_proof.machine_code.cost", None)
    with pytest.raises(MissingExtraError, match=r"warp_instructions needs edgemeta-proof .*pip install -e ./proof"):
        warp_instructions(NANO)
