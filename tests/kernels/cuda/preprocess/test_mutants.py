"""Planted bugs in the preprocessing of frames are noticed by its executed machine code: other bytes, or a race."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from edgemeta.kernels.cuda.compile.compiler import Compiler
from edgemeta.kernels.cuda.plan.launch_plan import LaunchPlan
from edgemeta.model.preprocess import Rectangle
from edgemeta_proof.machine_code.execution.plan import ExecutedPlan
from edgemeta_proof.machine_code.execution.words import ExecutionError
from tests.kernels.cuda.preprocess.frames import Shot, bright, expected_of, plan_of, shot, target_of
from tests.proof.machine_code.execution.mutants import GpuMutant, MutatedCompiler

pytestmark = pytest.mark.usefixtures("disassembler")

BODY = "preprocess/body.cuh"
BARRIER = "__syncthreads();"
MORE = pytest.mark.gate("1 s each: the kernel is compiled and its machine code executed")
BUGS = [
    *(GpuMutant("", BODY, BARRIER, ";", number) for number in range(3)),
    GpuMutant("", BODY, "row + 256", "row + 512"),
    GpuMutant("", BODY, "(even & 0xFFFF) * length", "(even & 0xFF) * length"),
    GpuMutant("", BODY, "if (at == span.start)", "if (at == lo)"),
    GpuMutant("", BODY, "if (hi != span.start + span.count) last = 0;", ""),
    GpuMutant("", BODY, "quotient + (rest >= divisor) - (rest < 0)", "quotient - (rest < 0)"),
    GpuMutant("", BODY, "quotient + (rest >= divisor) - (rest < 0)", "quotient + (rest >= divisor)"),
    GpuMutant("", BODY, "area << (bit + 1)", "area << bit"),
    GpuMutant("", BODY, "(Total)(long long)span.last", "(Total)(unsigned)span.last"),
    GpuMutant("", BODY, "(1 << 13)", "(1 << 12)"),
    GpuMutant("", BODY, "at - (unsigned)lead", "at"),
    GpuMutant("", BODY, "geometry.is_wide)", "false)"),
    GpuMutant("", BODY, "x >= begin && x < end", "x >= begin"),
    GpuMutant("", BODY, "max(first - geometry.left, 0)", "first - geometry.left"),
    GpuMutant("", BODY, "return 255;", "return 0;"),
]


def border(sides: tuple[int, int]) -> list[Shot]:
    """Frames whose mean is k - 1/2, or one unit of the sum less."""
    count = sides[0] * sides[1]
    shots = []
    for level in (1, 128, 252, 255):
        least = -(-(2 * level - 1) * count // 2)
        for total in (least, least - 1):
            pixels = np.full(count, total // count, np.uint8)
            pixels[: total % count] += 1
            shots.append(Shot(pixels.reshape(sides), [Rectangle(0, 0, *sides)]))
    return shots


@cache
def witnesses() -> list[tuple[LaunchPlan, NDArray[np.uint8], NDArray[np.uint8]]]:
    """Launches on sm_53, their frames, and the images by the definition."""
    sizes = [(48, 64, 3), (7, 5, 3), (33, 64), (31, 33, 3), (9, 13), (30, 901), (1, 700, 3)]
    many = [shot(size, n) for n, size in enumerate(sizes)] + [shot((9001, 7), value=255)]
    letterbox = target_of((9, 13), "bgya", "letterbox", signed=False)
    one = target_of((1, 1), "gray", "full", signed=False)
    tiles = Shot(shot((40, 50, 3)).pixels, [Rectangle(1, 0, 30, 30), Rectangle(3, 1, 20, 25)])
    made = [
        (letterbox, [*many, tiles]),
        (one, border((2, 41)) + border((1, 25801))),  # the float quotient is one too low, and one too high
        (target_of((4, 3), "gray", "full"), [bright((2999, 3001))]),  # an area of more than 32 bits
    ]
    return [(*plan_of(target, shots, "sm_53"), expected_of(target, shots)) for target, shots in made]


@pytest.mark.parametrize(
    "bug", [pytest.param(bug, id=str(bug), marks=() if n == 0 else MORE) for n, bug in enumerate(BUGS)]
)
def test_a_planted_bug_is_noticed(bug: GpuMutant, compiler: Compiler, tmp_path: Path) -> None:
    mutated = MutatedCompiler(compiler, bug, tmp_path)
    for plan, batch, expected in witnesses():
        try:
            (found,) = ExecutedPlan(plan, mutated).run(batch)
        except ExecutionError:
            return
        if (found != expected).any():
            return
    pytest.fail(f"nothing noticed {bug}")
