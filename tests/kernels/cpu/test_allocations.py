"""After the first call nothing is allocated: counted by a library that stands before the C library's malloc."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import ctypes
import sys

import numpy as np

from edgemeta.plugins.measure import random_image
from edgemeta.plugins.preprocess import make_preprocessor
from edgemeta.plugins.registry import choose
from tests.conformance.cases import CASES

allocations = ctypes.CDLL(None).allocations
allocations.restype = ctypes.c_long
model = next(case.model for case in CASES if case.name == "resnet8-table")
frame = np.zeros((480, 640, 3), np.uint8)


def counted(step):
    step()
    step()
    before = allocations()
    for _ in range(int(sys.argv[3])):
        step()
    return allocations() - before


before = allocations()
session = choose("cpu").compile(model, {"isa": sys.argv[1], "threads": int(sys.argv[2])})
opened = allocations() - before
prepare = make_preprocessor(model, frame.shape)
batch = np.concatenate([random_image(model)] * 5)
print(opened, counted(lambda: session.run(prepare(frame))[0]), counted(lambda: session.run(batch)[0]))
session.close()
"""


@pytest.fixture(scope="module")
def counter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler (Debian package gcc)")
    built = tmp_path_factory.mktemp("counter") / "malloc_counter.so"
    source = Path(__file__).with_name("malloc_counter.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", str(built), str(source)], check=True)
    return built


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("isa", "times"),
    [
        ("auto", 200),
        ("portable", 20),
        pytest.param("auto", 1000, marks=pytest.mark.gate("5 s: what allocates once in hundreds of frames")),
    ],
)
def test_a_frame_allocates_nothing(counter: Path, isa: str, times: int, threads: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, isa, str(threads), str(times)],
        env={**os.environ, "LD_PRELOAD": str(counter)},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    opened, frames, batches = map(int, done.stdout.split())
    assert opened > 20, "the counter counts"
    # The interpreter itself may now and then take a page for its own small objects.
    assert frames <= 5, f"{frames} allocations in {times} frames"
    assert batches <= 5, f"{batches} allocations in {times} batches"
