"""Random networks of every kind of layer: the emulated kernels equal the reference.

Architecture, thread order and every kernel's candidate are drawn with the network's number.
"""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from edgemeta.kernels.cuda.compile.cache import Cubins
from edgemeta.kernels.cuda.compile.compiler import SOURCES
from edgemeta.kernels.cuda.lowering import candidate_counts, lower
from edgemeta.kernels.cuda.plan.architectures import ARCHITECTURES
from edgemeta.kernels.cuda.plan.launch_plan import LaunchPlan
from edgemeta.model import reference
from edgemeta.model.graph import Model
from tests.conformance.random_networks import COMMON, random_network
from tests.emulation.compiler import EmulationCompiler
from tests.emulation.executor import Emulator, Images, Order, cached

FEW, MANY = 2 * len(COMMON), 40 * len(COMMON)
MORE = pytest.mark.gate("30 s of processor time in all: more networks than one that begins with every second kind")
ORDERS: tuple[Order, ...] = ("forward", "reverse", 11)


def plan_of(number: int, model: Model) -> LaunchPlan:
    rng = np.random.default_rng(number)
    architecture = list(ARCHITECTURES.values())[int(rng.integers(len(ARCHITECTURES)))]
    choices = {name: int(rng.integers(count)) for name, count in candidate_counts(model, architecture).items()}
    return lower(model, architecture, choices if number % 3 else {})


def assert_equal(number: int, images: Images) -> list[str]:
    """The folders of the kernels that ran."""
    case = random_network(number, COMMON)
    plan = plan_of(number, case.model)
    emulator = Emulator(plan, ORDERS[number % len(ORDERS)], "quick", images, poison=number % 256)
    for name, batch in case.batches():
        place = f"{case.name} {name} {plan.architecture.name} {[launch.tile for launch in plan.launches]}"
        np.testing.assert_array_equal(
            emulator.run(batch)[0], reference.run(case.model, batch)[0], err_msg=place, strict=True
        )
    return [launch.source.path.split("/")[0] for launch in plan.launches]


@pytest.mark.parametrize(
    "number", [pytest.param(each, marks=[MORE] if each % 2 or each >= len(COMMON) else []) for each in range(FEW)]
)
def test_a_few(number: int) -> None:
    assert_equal(number, cached("quick"))


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", range(len(COMMON)), ids=COMMON)
def test_many(kind: int, tmp_path: Path) -> None:
    """Starts with each kind of layer; prints the networks (pytest -s)."""
    images = Cubins(tmp_path, EmulationCompiler("quick"))
    numbers = range(FEW + kind, MANY, len(COMMON))
    ran = Counter(folder for number in numbers for folder in assert_equal(number, images))
    print(f"\n{len(numbers)} networks that begin with {COMMON[kind]}: launches {dict(ran)}")
    assert len(ran) >= 2


@pytest.mark.gate("3 s of processor time")
def test_every_shipped_kernel_is_used() -> None:
    folders = {
        launch.source.path.split("/")[0]
        for number in range(4 * len(COMMON))
        for launch in plan_of(number, random_network(number, COMMON).model).launches
    }
    layers = {path.parent.name for path in SOURCES.glob("*/launch.py")} - {"preprocess"}  # which no layer uses
    assert folders == layers
