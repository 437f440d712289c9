"""The bytes of a plan: always the same, and what does not fit is refused with the name of the layer and the field."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from edgemeta.kernels.cpu.library import ISA_NAMES, error_buffer, error_text, library
from edgemeta.kernels.lowering.plan_bytes import VERSION, packed, plan_bytes
from edgemeta.model.graph import Model
from tests.conformance.cases import Case

HEAD = len(b"EMPL") + 4 * (1 + 7 + 1)
"""Mark, version, the input's type, number of layers: then come the layers."""


def error_of(plan: bytes) -> str:
    error = error_buffer()
    handle = library().em_open(ISA_NAMES.index("portable"), 1, error)
    try:
        return error_text(error) if library().em_load(handle, plan, len(plan), error) < 0 else ""
    finally:
        library().em_close(handle)


def changed(model: Model, at: int, number: int) -> bytes:
    plan = plan_bytes(model, 0, {})
    return plan[:at] + packed([number]) + plan[at + 4 :]


def test_a_model_always_gives_the_same_bytes(resnet8: Case) -> None:
    plan = plan_bytes(resnet8.model, 0, {})
    code = (
        "import hashlib\nfrom edgemeta.kernels.lowering.plan_bytes import plan_bytes\n"
        "from tests.conformance.cases import CASES\n"
        "model = next(case.model for case in CASES if case.name == 'resnet8-multiplier')\n"
        "print(plan_bytes(model, 0, {}).hex())"
    )
    other = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert other.strip() == plan.hex()
    assert error_of(plan) == ""


def test_the_version_is_the_library_s(repository: Path) -> None:
    header = (repository / "kernels/cpu/src/edgemeta_cpu.h").read_text()
    assert f"EM_ABI_VERSION = {VERSION}," in header


@pytest.mark.parametrize(
    ("of", "sentence"),
    [
        (lambda model: plan_bytes(model, 0, {})[:-1], "the outputs ends beyond the bytes"),
        (lambda model: plan_bytes(model, 0, {}) + b"\0", "1 bytes follow the last field"),
        (
            lambda model: changed(model, 4, VERSION - 1),
            f"the version is {VERSION - 1}, expected {VERSION} .. {VERSION}",
        ),
        (lambda model: changed(model, 8, 0), "a side is 0, expected 1 .. 65536"),
        (lambda model: changed(model, HEAD - 4, 0), "the number of steps is 0, expected 1 .. 4096"),
        (lambda model: changed(model, HEAD, -5), "the name is -5, expected 1 .. 1048576"),
        (lambda model: changed(model, 8, 33), "layer 'conv0': the output has another shape"),
        (lambda _: b"", "the mark at the start ends beyond the bytes"),
    ],
)
def test_what_does_not_fit_is_named(of: Callable[[Model], bytes], sentence: str, resnet8: Case) -> None:
    assert error_of(of(resnet8.model)) == sentence


@pytest.mark.parametrize("seed", [1, 2])
def test_changed_plans_are_refused_or_run(seed: int) -> None:
    """In a process of their own, which a fault would end; `make sanitize` gives thousands to a build that finds all."""
    command = [sys.executable, "-m", "tests.kernels.cpu.changed_plans", str(seed), "400"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    refused, run = map(int, done.stdout.split())
    assert refused > 100
    assert run > 20
