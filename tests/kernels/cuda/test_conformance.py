"""The conformance table on the lowered kernels, run on the CPU: equal bit for bit, or refused with the layer's name.

In forward, reverse and shuffled order of threads. Every case runs on one architecture, drawn by its name, so that both
inner loops (16-bit multiply-adds and dp4a) see about half of the table; the slow test runs the other half.
"""

import zlib
from functools import cache

import numpy as np
import pytest
from cases import CASES, Case

from edgemeta.kernels.cuda.architectures import ARCHITECTURES
from edgemeta.kernels.cuda.fuse import fuse
from edgemeta.kernels.cuda.lowering import lower
from edgemeta.kernels.cuda.plan import UnsupportedError
from edgemeta.kernels.emulation.executor import Emulator, Order
from edgemeta.model import reference

NAMES = ("sm_53", "sm_87")


@cache
def is_supported(case: Case) -> bool:
    try:
        fuse(case.model)
    except UnsupportedError:
        return False
    return True


def drawn(case: Case) -> int:
    return zlib.crc32(case.name.encode()) % 2


def assert_equal(case: Case, architecture: str) -> None:
    plan = lower(case.model, ARCHITECTURES[architecture])
    orders: tuple[Order, ...] = ("forward", "reverse", 7)
    emulators = [Emulator(plan, order, mode="quick") for order in orders]
    for name, batch in case.batches():
        logits = reference.run(case.model, batch)
        for emulator in emulators:
            np.testing.assert_array_equal(emulator.run(batch), logits, err_msg=name, strict=True)


SUPPORTED = [case for case in CASES if is_supported(case)]
SMALL = [case for case in SUPPORTED if not case.name.startswith("resnet8")]


@pytest.mark.parametrize("case", SMALL, ids=[case.name for case in SMALL])
def test_a_case_equals_the_reference(case: Case) -> None:
    assert_equal(case, NAMES[drawn(case)])


@pytest.mark.slow
@pytest.mark.parametrize("case", SUPPORTED, ids=[case.name for case in SUPPORTED])
def test_a_case_equals_the_reference_on_the_other_architecture(case: Case) -> None:
    assert_equal(case, NAMES[1 - drawn(case)])


def test_only_what_s1_has_not_is_refused() -> None:
    refused = [case.name for case in CASES if not is_supported(case)]
    others = ("average", "max-pool", "concat", "upsample", "inception")
    assert [name for name in refused if not ("groups" in name or "depthwise" in name or name.startswith(others))] == []
    assert len(refused) < len(CASES) // 5
