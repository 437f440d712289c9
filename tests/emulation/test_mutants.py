"""Every barrier, bound check and rounding of the kernels is needed: the tests detect one that is missing or wrong.

A mutant (mutants.py) is detected if a witness (witnesses.py) gives other results, writes out of bounds, or is refused
by the checked mode. `make sanitize` tests all of them; `make test` one barrier and one bound of the two kernels of
convolutions, `make long` of each kernel; `make test` tests all wrong roundings, clamps, shifts and products of
requantize.cuh, which only the results can reveal.
"""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from tests.emulation.executor import Emulator
from tests.emulation.module import EmulationError
from tests.emulation.mutants import ARITHMETIC, Mutant, MutatedModules, arithmetic, files, mutants, root
from tests.emulation.witnesses import ROUNDING, WITNESSES, Witness

SHIPPED = (
    "direct",
    "winograd",
    "tensor",
    "popc",
    "pool_dense",
    "elementwise",
    "grouped",
    "pool",
    "rearrange",
    "resize",
)

# Mutant.place: why the mutant behaves like the kernel.
SURVIVORS: dict[str, str] = {
    "direct/kernel.cu: if (plane * DEPTH >= IN_C) continue;  // padding up to a multiple of 4 channels -> "
    "if (false) continue;  // padding up to a multiple of 4 channels (1)": "saves work: the weights there are 0",
    "direct/kernel.cu: if (DEPTH == 2 && plane * 2 + 1 >= IN_C) -> if (DEPTH == 2 && false) (1)": "as above",
    "direct/kernel.cu: if (i * THREADS < COUNT) ahead[i] = __ldg(from + min(i * THREADS + (int)threadIdx.x, COUNT - 1)"
    "); -> if (true) ahead[i] = __ldg(from + min(i * THREADS + (int)threadIdx.x, COUNT - 1)); (1)": "saves work: the "
    "last weights are loaded again, and not stored",
    "winograd/epilogue.cuh: return {in_block, channel, row * TILE, across * TILE, first, tile < TILES && "
    "first < T::channels}; -> return {in_block, channel, row * TILE, across * TILE, first, true && "
    "first < T::channels}; (1)": "saves work: the rows of such a tile are below the map, where none is written",
    "winograd/epilogue.cuh: if (y + 1 < TILE) load_residual(ahead, residual, place, y + 1); -> "
    "if (true) load_residual(ahead, residual, place, y + 1); (1)": "saves work: a row below the tile is not used",
    "baselines/paper/tiled.cu: __syncwarp(); -> ; (1)": "the first sum of a lane is its own; add_products waits then",
    "include/device.cuh: return rounded > sum || (rounded == sum && error < 0) ? "
    "__builtin_nextafterf(rounded, -__builtin_inff()) : rounded; -> return rounded > sum || "
    "(rounded == sum && false) ? __builtin_nextafterf(rounded, -__builtin_inff()) : rounded; (1)": "no bound, but the "
    "emulation's own rounding of sums that end on a float exactly",
    "include/device.cuh: return block_threads<USED>() == USED || (int)threadIdx.x < USED; -> "
    "return block_threads<USED>() == USED || true; (1)": "all threads take part in a kernel of one layer; that of a "
    "network: tests/kernels/cuda/one_launch",
}


def noticed(mutant: Mutant, witnesses: Iterable[Witness], folder: Path, mode: str = "checked") -> str | None:
    """How a witness detected a mutant, or None."""
    modules = MutatedModules(mutant, folder, mode)
    for witness in witnesses:
        if not any(root(mutant.file) / mutant.file in files(source) for source in witness.plan.sources):
            continue
        try:
            if not np.array_equal(Emulator(witness.plan, images=modules).run(witness.batch)[0], witness.logits):
                return f"{witness}: other integers"
        except EmulationError as error:
            return f"{witness}: {error}"
    return None


OTHERS = pytest.mark.gate("2 to 12 s each: modules with every access checked")


@pytest.mark.parametrize("kernel", ["direct", *(pytest.param(each, marks=OTHERS) for each in SHIPPED[1:])])
def test_one_barrier_and_one_bound(kernel: str, tmp_path: Path) -> None:
    found = [mutant for mutant in mutants(kernel) if mutant.place not in SURVIVORS]
    barriers = [mutant for mutant in found if mutant.is_barrier][:1]
    bounds = [mutant for mutant in found if not mutant.is_barrier][:1]
    assert barriers + bounds
    for i, mutant in enumerate(barriers + bounds):
        assert noticed(mutant, WITNESSES[kernel], tmp_path / str(i)), mutant


@pytest.mark.parametrize(
    "form",
    [
        pytest.param(each, marks=[] if each == "LINE" else pytest.mark.gate("1 to 3 s each: other forms"))
        for each in ARITHMETIC
    ],
)
def test_wrong_arithmetic_changes_results(form: str, tmp_path: Path) -> None:
    missed = [
        mutant.after.strip()
        for i, mutant in enumerate(arithmetic(form))
        if not noticed(mutant, ROUNDING[form], tmp_path / str(i), "quick")
    ]
    assert missed == []


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kernel", WITNESSES)
def test_every_mutant_is_detected(kernel: str, tmp_path: Path) -> None:
    found = list(mutants(kernel))
    survivors = {m.place for i, m in enumerate(found) if not noticed(m, WITNESSES[kernel], tmp_path / str(i))}
    files = {mutant.file for mutant in found}
    assert survivors == {place for place in SURVIVORS if place.split(":")[0] in files}


def test_every_barrier_has_a_mutant() -> None:
    for kernel in WITNESSES:
        barriers = sum(path.read_text().count("__syncthreads();") for path in (root(kernel) / kernel).glob("*.cu*"))
        assert sum(mutant.is_barrier for mutant in mutants(kernel)) >= barriers
