"""Plans with random changes: the library refuses them, or runs them without a fault. Prints how many of each.

python -m tests.kernels.cpu.changed_plans SEED COUNT
"""

import struct
import sys
from collections import Counter
from ctypes import c_int32, c_void_p

import numpy as np

from edgemeta.kernels.cpu.library import ISA_NAMES, error_buffer, error_text, library, supported_isas
from edgemeta.kernels.lowering.plan_bytes import plan_bytes
from tests.conformance.cases import CASES

TYPE = 8
"""Where the input's type begins in a plan."""

MOST_BYTES = 1 << 16
EDGES = (-(2**31), -(2**16), -1, 0, 1, 2, 255, 256, 2**15, 2**16, 2**20, 2**31 - 1)
"""Numbers that a field may not be ready for."""


def changed(plan: bytes, rng: np.random.Generator) -> bytes:
    """The plan with one to three changes: of a byte, a number, its end, or a piece that is doubled or missing."""
    content = bytearray(plan)
    for _ in range(int(rng.integers(1, 4))):
        at = int(rng.integers(len(content)))
        match int(rng.integers(5)):
            case 0:
                content[at] = int(rng.integers(256))
            case 1:
                content[at : at + 4] = int(rng.choice(EDGES)).to_bytes(4, "little", signed=True)
            case 2:
                content[at] = (content[at] + int(rng.choice([-1, 1]))) % 256
            case 3:
                piece = content[at : at + int(rng.integers(1, 40))]
                content[at:at] = piece
            case _:
                del content[at : at + int(rng.integers(1, 40))]
        if not content:
            return bytes(content)
    return bytes(content)


def outcome(plan: bytes, isa: str, rng: np.random.Generator) -> str:
    """ "refused", or "run" on random images and both ends of the input's range."""
    error = error_buffer()
    handle = library().em_open(ISA_NAMES.index(isa), int(rng.integers(1, 3)), error)
    try:
        if library().em_load(handle, plan, len(plan), error) < 0:
            assert error_text(error)
            return "refused"
        lo, hi = struct.unpack_from("<2i", plan, TYPE + 16)
        size, target = (library().em_bytes(handle, output) for output in (-1, 0))
        batch = rng.integers(lo, hi + 1, (3, size)).astype(np.int8 if lo < 0 else np.uint8)
        batch[0], batch[1] = lo, hi
        found = np.empty(3 * target, np.uint8)
        addresses = (c_void_p * 1)(found.ctypes.data)
        library().em_run(c_void_p(handle), c_int32(3), c_void_p(batch.ctypes.data), addresses)
        return "run"
    finally:
        library().em_close(handle)


def main(seed: int, count: int) -> None:
    """Change plans of the conformance table's rows in turn."""
    rng = np.random.default_rng(seed)
    plans = [plan_bytes(case.model, 0, {}) for case in CASES if len(case.model.outputs) == 1]
    small = [plan for plan in plans if len(plan) <= MOST_BYTES]
    isas = supported_isas()
    found = Counter(
        outcome(changed(small[int(rng.integers(len(small)))], rng), isas[i % len(isas)], rng) for i in range(count)
    )
    print(found["refused"], found["run"])


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
