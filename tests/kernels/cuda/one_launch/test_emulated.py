"""A network as one launch on the emulation, every access checked: equal to the reference, no race between blocks."""

import shutil
from pathlib import Path

import pytest

from edgemeta.kernels.cuda.compile.compiler import SOURCES
from edgemeta.kernels.cuda.plan.architectures import Architecture
from edgemeta.kernels.cuda.plan.launch_plan import Source
from edgemeta.model import reference
from tests.conformance.networks import assert_equal_outputs
from tests.emulation.compiler import EmulationCompiler
from tests.emulation.executor import Emulator, Order
from tests.emulation.module import EmulationError
from tests.kernels.cuda.one_launch.networks import WITNESSES, read_too_early, witness

MORE = pytest.mark.gate("5 s each: networks as one launch, every access checked")
ORDERS: tuple[Order, ...] = ("forward", "reverse", 3)


@pytest.mark.parametrize("name", [pytest.param(name, marks=() if n == 0 else MORE) for n, name in enumerate(WITNESSES)])
def test_equal_to_the_reference_in_every_order(name: str) -> None:
    case, plan = witness(name)
    assert plan.launches[0].grid[0] >= 2
    for order in ORDERS:
        emulator = Emulator(plan, order, "checked")
        for batch_name, batch in case.batches():
            assert_equal_outputs(emulator.run(batch), reference.run(case.model, batch), batch_name)


class Mutated:
    """Modules of mode `checked` from sources with one replaced text of a header of one_launch."""

    def __init__(self, folder: Path, header: str, before: str, after: str) -> None:
        for path in SOURCES.rglob("*.cu*"):
            copy = folder / path.relative_to(SOURCES)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, copy)
        file = folder / "one_launch" / header
        text = file.read_text("utf-8")
        assert before in text
        file.write_text(text.replace(before, after, 1), "utf-8")
        self._compiler = EmulationCompiler("checked", folder)

    def get(self, source: Source, architecture: Architecture) -> bytes:
        """The module of a variant."""
        return self._compiler.compile(source, architecture)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("((poll(counter) ^ before) & 0x80000000u) == 0", "false", "race: .* block"),
        ("__threadfence();  // publishes", ";  // publishes", "race: .* block"),
        pytest.param("__threadfence();  // no later", ";  // no later", "race: .* block", marks=MORE),
        pytest.param("  }\n  __syncthreads();", "  }", "race: .* block", marks=MORE),
        pytest.param("NETWORK_BLOCKS - 1", "NETWORK_BLOCKS", "blocks wait for each other", marks=MORE),
    ],
)
def test_a_barrier_that_does_not_hold_is_noticed(before: str, after: str, message: str, tmp_path: Path) -> None:
    case, plan = witness("winograd")
    batch = next(iter(case.batches()))[1][:1]
    emulator = Emulator(plan, images=Mutated(tmp_path, "barrier.cuh", before, after))
    with pytest.raises(EmulationError, match=message):
        emulator.run(batch)


def test_blocks_of_a_cluster_that_do_not_wait_are_noticed(tmp_path: Path) -> None:
    case, plan = witness("cluster")
    batch = next(iter(case.batches()))[1][:1]
    wait = "emulation::wait_for_cluster(__LINE__);"
    emulator = Emulator(plan, images=Mutated(tmp_path, "cluster.cuh", wait, "__syncthreads();"))
    with pytest.raises(EmulationError, match=r"race: .* block"):
        emulator.run(batch)


def test_constants_that_are_read_while_they_are_copied_are_noticed() -> None:
    case, plan = witness("cluster")
    batch = next(iter(case.batches()))[1][:1]
    with pytest.raises(EmulationError, match="shared memory"):
        Emulator(read_too_early(plan), mode="checked").run(batch)
