"""The machine code of the preprocessing gives the definition's bits, executed on frames."""

import numpy as np
import pytest

from edgemeta.kernels.cuda.compile.compiler import Compiler
from edgemeta_proof.machine_code.execution.plan import ExecutedPlan
from tests.kernels.cuda.preprocess.frames import Target, bright, expected_of, plan_of, shot, target_of

pytestmark = pytest.mark.usefixtures("disassembler")

GATE = pytest.mark.gate("4 s each: machine code is executed")
RGB = target_of((8, 8), "rgb", "full")
LETTERBOX = target_of((9, 13), "bgya", "letterbox", signed=False)


@pytest.mark.parametrize(
    ("architecture", "target"),
    [
        pytest.param("sm_53", RGB, id="sm_53-rgb"),
        *(
            pytest.param(name, target, id=f"{name}-{target.preprocessing.colour}", marks=GATE)
            for name in ("sm_53", "sm_62", "sm_87", "sm_90")
            for target in (RGB, LETTERBOX)
            if (name, target) != ("sm_53", RGB)
        ),
    ],
)
def test_frames_of_many_sizes(architecture: str, target: Target, compiler: Compiler) -> None:
    shapes = [(480, 640, 3), (7, 5, 3), (33, 64), (1, 700, 3), (700, 1), (31, 33, 3), (8, 8, 3), (9, 13), (300, 901)]
    shots = [shot(shape, n) for n, shape in enumerate(shapes)] + [shot((37, 53, 3), value=255)]
    plan, batch = plan_of(target, shots, architecture)
    (found,) = ExecutedPlan(plan, compiler).run(batch)
    np.testing.assert_array_equal(found, expected_of(target, shots), strict=True)


@pytest.mark.gate("5 s each: nine million pixels")
@pytest.mark.parametrize("architecture", ["sm_53", "sm_62", "sm_87", "sm_90"])
def test_an_area_of_more_than_32_bits(architecture: str, compiler: Compiler) -> None:
    target, shots = target_of((4, 3), "gray", "full"), [bright((2999, 3001))]
    plan, batch = plan_of(target, shots, architecture)
    (found,) = ExecutedPlan(plan, compiler).run(batch)
    np.testing.assert_array_equal(found, expected_of(target, shots), strict=True)
