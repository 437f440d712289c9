"""The generated tables on the emulated CUDA kernels: every pair with unlike zero points, every limit of every field.

Architecture and thread order are drawn with the row's number. The kernels of each row are compiled, for seconds.
"""

from collections.abc import Iterable
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from edgemeta.kernels.cuda.compile.cache import Cubins
from edgemeta.kernels.cuda.lowering import lower
from edgemeta.kernels.cuda.plan.architectures import ARCHITECTURES
from edgemeta.model import reference
from edgemeta.plugins.compile import refusals_of
from edgemeta.plugins.registry import load
from tests.conformance.generated import limits, pairs, sums_at_the_ends
from tests.conformance.networks import Case
from tests.conformance.operators import OPERATORS, Operator
from tests.conformance.random_networks import COMMON
from tests.emulation.compiler import EmulationCompiler
from tests.emulation.executor import Emulator, Order

ORDERS: tuple[Order, ...] = ("forward", "reverse", 11)
PARTS = 16


def assert_equal(cases: Iterable[Case], folder: Path) -> int:
    """How many of these networks the kernels take; all of them have the reference's integers."""
    images, architectures, taken = Cubins(folder, EmulationCompiler("quick")), list(ARCHITECTURES.values()), 0
    for number, case in enumerate(cases):
        if refusals_of(case.model, load("cuda")):
            continue
        plan = lower(case.model, architectures[number % len(architectures)])
        emulator = Emulator(plan, ORDERS[number % len(ORDERS)], "quick", images, poison=number % 256)
        batch = np.concatenate([each for _, each in case.batches()])
        place = f"{case.name} {plan.architecture.name}"
        np.testing.assert_array_equal(
            emulator.run(batch)[0], reference.run(case.model, batch)[0], err_msg=place, strict=True
        )
        taken += 1
    return taken


@pytest.mark.gate("10 s: the kernels of some rows are compiled")
def test_some_pairs(tmp_path: Path) -> None:
    assert assert_equal(islice(pairs(0), 7, None, 60), tmp_path) >= 5


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("part", range(PARTS))
def test_every_ordered_pair_with_unlike_zero_points(part: int, tmp_path: Path) -> None:
    assert assert_equal(islice(pairs(part % 3), part, None, PARTS), tmp_path) > 15


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(
    "operator", [each for each in OPERATORS if each.name in (*COMMON, "conv-1x1")], ids=lambda operator: operator.name
)
def test_every_limit_of_every_field(operator: Operator, tmp_path: Path) -> None:
    rows = [*limits(operator), *(sums_at_the_ends(operator) if "bias" in operator.fields else ())]
    assert assert_equal(rows, tmp_path) > len(rows) // 2
