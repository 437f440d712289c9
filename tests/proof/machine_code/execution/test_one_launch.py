"""The machine code of a network as one launch gives the reference's integers; barriers that do not hold are noticed.

The order of the blocks matters only if a barrier does not hold them: in the orders `forward` and `reverse` one block
goes on as far as it can before the next one starts. The block that lets its other threads go on while one waits is a
mutant of the emulation (tests/kernels/cuda/one_launch/test_emulated.py).
"""

from pathlib import Path

import numpy as np
import pytest

from edgemeta.kernels.cuda.compile.compiler import Compiler
from edgemeta.kernels.cuda.lowering import lower
from edgemeta.kernels.cuda.one_launch.plan import one_launch
from edgemeta.kernels.cuda.plan.architectures import ARCHITECTURES
from edgemeta.model import reference
from edgemeta.model.file import load
from edgemeta.model.zoo import find
from edgemeta_proof.machine_code.execution.machine import Order
from edgemeta_proof.machine_code.execution.plan import Compiles, ExecutedPlan
from edgemeta_proof.machine_code.execution.words import ExecutionError
from tests.kernels.cuda.one_launch.networks import read_too_early, witness
from tests.plugins.cuda.proofs import first_images
from tests.proof.machine_code.execution.mutants import GpuMutant, MutatedCompiler

pytestmark = pytest.mark.usefixtures("disassembler")

ORDERS: tuple[Order, ...] = ("together", "forward", "reverse")
GATE = pytest.mark.gate("5 s each: networks are compiled as one kernel and its machine code is executed")
BARRIER = "one_launch/barrier.cuh"


def mismatches(name: str, compiler: Compiles, order: Order) -> int:
    case, plan = witness(name)
    batch = np.concatenate([batch for _, batch in case.batches()])[:2]
    found = ExecutedPlan(plan, compiler, order).run(batch)
    return sum(
        int(np.count_nonzero(f.reshape(e.shape) != e))
        for f, e in zip(found, reference.run(case.model, batch), strict=True)
    )


@pytest.mark.parametrize("name", ["winograd", *(pytest.param(name, marks=GATE) for name in ("direct", "tensor"))])
def test_equal_to_the_reference_in_every_order(name: str, compiler: Compiler) -> None:
    assert [mismatches(name, compiler, order) for order in ORDERS] == [0, 0, 0]


MUTANTS = {
    "does not wait": ("((poll(counter) ^ before) & 0x80000000u) == 0", "false"),
    "no fence before": ("__threadfence();  // publishes", ";  // publishes"),
    "no fence after": ("__threadfence();  // no later", ";  // no later"),
    "one arrival too many": ("NETWORK_BLOCKS - 1", "NETWORK_BLOCKS"),
}


@pytest.mark.parametrize("name", [pytest.param(name, marks=() if n == 1 else GATE) for n, name in enumerate(MUTANTS)])
def test_a_barrier_that_does_not_hold_is_noticed(name: str, compiler: Compiler, tmp_path: Path) -> None:
    before, after = MUTANTS[name]
    mutated = MutatedCompiler(compiler, GpuMutant("winograd", BARRIER, before, after), tmp_path)
    with pytest.raises((ExecutionError, AssertionError)):
        assert mismatches("winograd", mutated, "forward") == 0


def test_a_tensor_read_as_if_nobody_wrote_it_is_noticed(compiler: Compiler, tmp_path: Path) -> None:
    plain = "#ifdef NETWORK_THREADS\n  return *from;"
    mutant = GpuMutant("winograd", "include/device.cuh", plain, plain.replace("*from", "__ldg(from)"))
    with pytest.raises(ExecutionError, match="through the cache for constant memory"):
        mismatches("winograd", MutatedCompiler(compiler, mutant, tmp_path), "together")


def test_constants_that_are_read_while_they_are_copied_are_noticed(compiler: Compiler) -> None:
    case, plan = witness("tensor")
    with pytest.raises(ExecutionError, match="shared memory that"):
        ExecutedPlan(read_too_early(plan), compiler).run(next(iter(case.batches()))[1][:1])


@pytest.mark.slow  # 60 s each, and benchmarks/machine_code_proof.py does the same with more images
@pytest.mark.parametrize("architecture", ["sm_53", "sm_87", "sm_90"])
@pytest.mark.parametrize("name", ["resnet8-cifar10", "resnet8-cifar10-paper"])
def test_a_shipped_network_on_real_images(name: str, architecture: str, compiler: Compiler, shared_data: Path) -> None:
    model = load(find(name))
    images = first_images(model, shared_data, 2)
    executed = ExecutedPlan(one_launch(lower(model, ARCHITECTURES[architecture])), compiler, "forward")
    for one, expected in zip(executed.run(images), reference.run(model, images), strict=True):
        np.testing.assert_array_equal(one, expected, strict=True)
