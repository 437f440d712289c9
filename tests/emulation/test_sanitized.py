"""The real kernels under the emulation's own checks and under AddressSanitizer and UndefinedBehaviorSanitizer.

A run that the checks call clean has no race, so its result does not depend on the order of threads. A few cases are in
`make test`, one under AddressSanitizer is in `make long`; `make sanitize` runs the whole table.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from edgemeta.kernels.cuda.lowering import lower
from edgemeta.kernels.cuda.plan.architectures import ARCHITECTURES
from edgemeta.kernels.lowering.steps import UnsupportedError
from edgemeta.model import reference
from tests.conformance.cases import CASES, Case
from tests.emulation.executor import Emulator

BY_NAME = {case.name: case for case in CASES}
# Both inner loops; odd sizes, strides, a shortcut, tables, a residual addition, channels that fill no word.
FEW = (
    ("conv-3x3-odd-signed", "sm_53"),
    ("conv-3x3-odd-signed", "sm_87"),
    ("conv-5x5-stride2-unsigned", "sm_53"),
    ("residual-block-table", "sm_87"),
    ("rescale-table", "sm_53"),
)
MORE = pytest.mark.gate("1 to 3 s each: modules with every access checked")


def assert_clean(case: Case, architecture: str) -> None:
    emulator = Emulator(lower(case.model, ARCHITECTURES[architecture]), mode="checked")
    for name, batch in case.batches():
        logits = reference.run(case.model, batch)[0]
        np.testing.assert_array_equal(emulator.run(batch)[0], logits, err_msg=f"{case.name}: {name}", strict=True)


def under_address_sanitizer(repository: Path, architecture: str, *names: str) -> int:
    """How many cases ran clean."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no compiler (Debian package g++)")
    libraries = [
        subprocess.run(
            [compiler, f"-print-file-name={name}"], check=True, capture_output=True, text=True
        ).stdout.strip()
        for name in ("libasan.so", "libubsan.so", "libstdc++.so.6")
    ]
    script = Path(__file__).with_name("under_address_sanitizer.py")
    done = subprocess.run(
        [sys.executable, str(script), architecture, *names],
        env={
            **os.environ,
            "LD_PRELOAD": ":".join(libraries),
            "ASAN_OPTIONS": "detect_leaks=0:verify_asan_link_order=0",
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return int(done.stdout)


@pytest.mark.parametrize(("name", "architecture"), [FEW[0], *(pytest.param(*each, marks=MORE) for each in FEW[1:])])
def test_a_few_cases_are_clean(name: str, architecture: str) -> None:
    assert_clean(BY_NAME[name], architecture)


@pytest.mark.gate("12 s of processor time: modules for AddressSanitizer")
def test_one_case_under_address_sanitizer(repository: Path) -> None:
    assert under_address_sanitizer(repository, "sm_53", "residual-block-multiplier") == 1


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("architecture", ["sm_53", "sm_87"])
def test_the_table_is_clean(architecture: str) -> None:
    done = 0
    for case in CASES:
        try:
            assert_clean(case, architecture)
        except UnsupportedError:
            continue
        done += 1
    assert done > 150


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("architecture", ["sm_53", "sm_87"])
def test_the_table_under_address_sanitizer(repository: Path, architecture: str) -> None:
    assert under_address_sanitizer(repository, architecture) > 150
