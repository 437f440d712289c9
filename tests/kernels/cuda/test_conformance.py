"""The conformance table on the lowered kernels, run on the CPU: equal bit for bit, or refused with the layer's name.

In forward, reverse and shuffled order of threads. Every case runs on one architecture, drawn by its name, so that both
inner loops (16-bit multiply-adds and dp4a) see about half of the table; the slow test runs the other half.
"""

import zlib
from contextlib import suppress

import numpy as np
import pytest
from cases import CASES, Case

from edgemeta.kernels.cuda.architectures import ARCHITECTURES
from edgemeta.kernels.cuda.lowering import lower
from edgemeta.kernels.cuda.plan import Architecture, Plan, UnsupportedError
from edgemeta.kernels.emulation.executor import Emulator, Order
from edgemeta.model import reference

NAMES = ("sm_53", "sm_87")
SMALL = [case for case in CASES if not case.name.startswith("resnet8")]
WITHOUT_KERNEL = ("groups", "depthwise", "average", "max-pool", "concat", "upsample", "inception")
"""In the names of cases that may be refused; where there is a kernel, they run."""


def drawn(case: Case) -> int:
    return zlib.crc32(case.name.encode()) % 2


def lowered(case: Case, architecture: Architecture) -> Plan | None:
    """None if a layer may be refused, and is."""
    if any(word in case.name for word in WITHOUT_KERNEL):
        with suppress(UnsupportedError):
            return lower(case.model, architecture)
        return None
    return lower(case.model, architecture)


def assert_equal(case: Case, architecture: str) -> None:
    plan = lowered(case, ARCHITECTURES[architecture])
    if plan is None:
        return
    orders: tuple[Order, ...] = ("forward", "reverse", 7)
    emulators = [Emulator(plan, order, mode="quick") for order in orders]
    for name, batch in case.batches():
        logits = reference.run(case.model, batch)
        for emulator in emulators:
            np.testing.assert_array_equal(emulator.run(batch), logits, err_msg=name, strict=True)


@pytest.mark.parametrize("case", SMALL, ids=[case.name for case in SMALL])
def test_a_case_equals_the_reference(case: Case) -> None:
    assert_equal(case, NAMES[drawn(case)])


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_case_equals_the_reference_on_the_other_architecture(case: Case) -> None:
    assert_equal(case, NAMES[1 - drawn(case)])
