"""Bugs that only a GPU executes are noticed by executing the machine code: other integers, or a race."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from edgemeta.kernels.cuda.compile.compiler import Compiler
from edgemeta.kernels.cuda.lowering import KERNELS, lower
from edgemeta.kernels.cuda.plan.architectures import ARCHITECTURES
from edgemeta.kernels.cuda.plan.kernel import Kernel
from edgemeta.model import reference
from edgemeta_proof.machine_code.execution.plan import Compiles, ExecutedPlan
from edgemeta_proof.machine_code.execution.words import ExecutionError
from tests.conformance.cases import residual_block, signed
from tests.conformance.networks import Case, NetworkBuilder
from tests.emulation.witnesses import BY_NAME, DIRECT, IN_PASSES, POPC, TENSOR, WINOGRAD, block, one, only_pool, planes
from tests.proof.machine_code.execution.mutants import GpuMutant, MutatedCompiler, arithmetic, barriers

IMAGES = 2


def pool_and_dense() -> Case:
    """A pool over the whole map, fused with a dense layer."""
    net = NetworkBuilder("pool-and-dense", signed(6, 6, 70))
    return net.observe(net.average(net.start, (6, 6)))


@cache
def witnesses(name: str) -> list[tuple[Case, str, tuple[Kernel, ...]]]:
    """Networks with the architecture and kernels that reveal a mutant; the first that does ends the search."""
    few = one("odd-map", 5, 7, 17, 19)
    return {
        "halves": [(few, "sm_53", DIRECT)],
        "permutation": [(few, "sm_53", DIRECT)],
        "dp4a": [(few, "sm_87", DIRECT)],
        "dp4a unsigned": [(BY_NAME["conv-3x3-image-unsigned"], "sm_87", DIRECT)],
        "mma long": [(one("deep", 7, 5, 32, 16), "sm_87", TENSOR), (block("tensor", 7, 5, 16, 16), "sm_87", TENSOR)],
        "mma short": [(block("tensor", 7, 5, 16, 16), "sm_87", TENSOR)],
        "mma int4 long": [(BY_NAME["w4a4-3x3-stride2-signed"], "sm_87", TENSOR)],
        "mma int4 short": [(BY_NAME["w4a4-3x3-signed"], "sm_87", TENSOR)],
        "mma int4 unsigned": [(BY_NAME["w4a4-3x3-stride2-unsigned"], "sm_87", TENSOR)],
        "rounding": [(BY_NAME["ties-conv-fine"], "sm_53", DIRECT)],
        "direct": [
            (block("many-inputs", 5, 4, 150, 20), "sm_53", DIRECT),
            (residual_block("table"), "sm_53", DIRECT),
            (BY_NAME["conv-3x3-odd-signed"], "sm_87", DIRECT),
        ],
        "winograd": [
            (block("shortcut", 10, 10, 12, 36), "sm_53", WINOGRAD),
            (one("w", 5, 5, 200, 12), "sm_53", WINOGRAD),
        ],
        "popc": [
            (planes("planes", 7, 5, 3, 21), "sm_53", POPC),
            (planes("many-planes", 8, 8, 62, 62), "sm_53", IN_PASSES),
        ],
        "pool_dense": [
            (BY_NAME["dense-table"], "sm_53", KERNELS),
            (only_pool(), "sm_53", KERNELS),
            (pool_and_dense(), "sm_53", KERNELS),
        ],
    }[name]


def noticed(compiler: Compiles, name: str) -> Iterator[str]:
    """How each witness notices a mutant."""
    for case, architecture, kernels in witnesses(name):
        batch = np.concatenate([batch for _, batch in case.batches()])
        batch = batch if name == "rounding" else batch[:IMAGES]
        try:
            plan = lower(case.model, ARCHITECTURES[architecture], kernels=kernels)
            found = ExecutedPlan(plan, compiler).run(batch)
        except ExecutionError as error:
            yield f"{case.name}: {error}"
            continue
        expected = reference.run(case.model, batch)
        if any((f.reshape(e.shape) != e).any() for f, e in zip(found, expected, strict=True)):
            yield f"{case.name}: other integers"


MUTANTS = [*arithmetic(), *barriers()]
QUICK = (0, len(arithmetic()))  # one wrong half, one barrier
MORE = pytest.mark.gate("2 s each: kernels are compiled and their machine code is executed")


@pytest.mark.usefixtures("disassembler")
@pytest.mark.parametrize(
    "mutant", [pytest.param(each, id=str(each), marks=() if n in QUICK else MORE) for n, each in enumerate(MUTANTS)]
)
def test_a_mutant_is_noticed(mutant: GpuMutant, compiler: Compiler, tmp_path: Path) -> None:
    assert next(noticed(MutatedCompiler(compiler, mutant, tmp_path), mutant.witnesses), None)


@pytest.mark.gate("10 s: the witnesses without a mutant")
@pytest.mark.usefixtures("disassembler")
@pytest.mark.parametrize("name", dict.fromkeys(each.witnesses for each in MUTANTS))
def test_the_kernels_themselves_are_right(name: str, compiler: Compiler) -> None:
    assert list(noticed(compiler, name)) == []


def test_there_are_twenty() -> None:
    assert len(MUTANTS) >= 20
