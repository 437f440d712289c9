"""The max pool that docs/kernels.md explains: exact, without errors, its loops as declared."""

from pathlib import Path

import numpy as np
import pytest

from edgemeta.kernels.cuda.compile.compiler import SOURCES, Compiler
from edgemeta.kernels.cuda.lowering import KERNELS, lower
from edgemeta.kernels.cuda.plan.architectures import ARCHITECTURES, Architecture
from edgemeta.kernels.cuda.plan.launch_plan import LaunchPlan, Source
from edgemeta.model import reference
from edgemeta_proof.machine_code.cost import cost
from tests.conformance.cases import CASES, Case
from tests.emulation.compiler import EmulationCompiler
from tests.emulation.executor import Emulator, cached
from tests.kernels.cuda.walkthrough.launch import candidates

ROWS = [case for case in CASES if case.name.startswith("max-pool-")]


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """kernels/cuda with the example's folder in it."""
    folder = tmp_path_factory.mktemp("cuda")
    for path in SOURCES.iterdir():
        (folder / path.name).symlink_to(path)
    (folder / "max_pool").symlink_to(Path(__file__).parent / "walkthrough")
    return folder


class Checked:
    """Modules that check every memory access: the new kernel's from its folder, the others' from the store."""

    def __init__(self, sources: Path) -> None:
        self._compiler = EmulationCompiler("checked", sources)
        self._others = cached("checked")

    def get(self, source: Source, architecture: Architecture) -> bytes:
        if source.path.startswith("max_pool/"):
            return self._compiler.compile(source, architecture)
        return self._others.get(source, architecture)


@pytest.mark.parametrize("case", ROWS, ids=[case.name for case in ROWS])
def test_its_rows_equal_the_reference(case: Case, sources: Path) -> None:
    plan = lower(case.model, ARCHITECTURES["sm_53"], kernels=(candidates, *KERNELS))
    emulator = Emulator(plan, 5, images=Checked(sources))
    for name, batch in case.batches():
        np.testing.assert_array_equal(
            emulator.run(batch)[0], reference.run(case.model, batch)[0], err_msg=name, strict=True
        )


@pytest.mark.gate("3 s of processor time")
@pytest.mark.usefixtures("disassembler")
def test_its_loops_are_those_of_the_machine_code(
    sources: Path, compiler: Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgemeta.kernels.cuda.compile.compiler.SOURCES", sources)
    for case in ROWS:
        plan = lower(case.model, ARCHITECTURES["sm_53"], kernels=(candidates, *KERNELS))
        launches = tuple(launch for launch in plan.launches if launch.source.path == "max_pool/kernel.cu")
        total = cost(LaunchPlan(plan.architecture, launches, plan.input, plan.outputs), case.model, compiler)
        assert len(total.launches) == len(launches) >= 1
