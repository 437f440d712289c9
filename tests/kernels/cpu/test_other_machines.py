"""Processors without AVX-512 or AVX2, under qemu: the next best path is taken and a forced one is refused."""

import os
import platform
import shutil
import subprocess
import sys

import pytest

PROGRAM = """
from contextlib import closing

from edgemeta.model import reference
from edgemeta.plugins.api import BackendError
from edgemeta.plugins.registry import choose
from tests.conformance.cases import CASES

backend = choose("auto")
print(backend.probe().reason)
for isa in ("avx512vnni", "avxvnni", "avx2"):
    try:
        backend.compile(CASES[0].model, {"isa": isa}).close()
    except BackendError as error:
        print(error)
for case in CASES[::10]:
    with closing(backend.compile(case.model, {})) as session:
        for _, batch in case.batches():
            assert (session.run(batch)[0] == reference.run(case.model, batch)[0]).all(), case.name
print("equal")
"""
MACHINES = {
    "Haswell": [
        "C++ kernels, avx2",
        "backend cpu: this machine has no avx512vnni, its best is avx2",
        "backend cpu: this machine has no avxvnni, its best is avx2",
        "equal",
    ],
    "Haswell,-avx2": [
        "C++ kernels, portable",
        "backend cpu: this machine has no avx512vnni, its best is portable",
        "backend cpu: this machine has no avxvnni, its best is portable",
        "backend cpu: this machine has no avx2, its best is portable",
        "equal",
    ],
}


@pytest.mark.gate("15 s each: Python on an emulated processor")
@pytest.mark.skipif(platform.machine() != "x86_64", reason="emulates x86-64 processors on an x86-64 machine")
@pytest.mark.parametrize("processor", MACHINES)
def test_an_older_processor_uses_its_best_instruction_set(processor: str) -> None:
    emulator = shutil.which("qemu-x86_64")
    if emulator is None:
        pytest.skip("no emulator (Debian package qemu-user)")
    done = subprocess.run(
        [emulator, "-cpu", processor, sys.executable, "-c", PROGRAM],
        env={**os.environ, "OPENBLAS_CORETYPE": "Nehalem"},  # NumPy's own choice goes by the family's number alone
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == MACHINES[processor]
