"""Runs conformance cases in modules built for AddressSanitizer: python this.py ARCHITECTURE NAME...

Started by test_sanitized.py with the sanitizers preloaded; no names: every case that lowers.
"""

import sys

import numpy as np

from edgemeta.kernels.cuda.lowering import lower
from edgemeta.kernels.cuda.plan.architectures import ARCHITECTURES
from edgemeta.kernels.lowering.steps import UnsupportedError
from edgemeta.model import reference
from tests.conformance.cases import CASES
from tests.emulation.executor import Emulator

done = 0
for case in CASES:
    if sys.argv[2:] and case.name not in sys.argv[2:]:
        continue
    try:
        plan = lower(case.model, ARCHITECTURES[sys.argv[1]])
    except UnsupportedError:
        continue
    emulator = Emulator(plan, mode="address")
    for _, batch in case.batches():
        assert np.array_equal(emulator.run(batch)[0], reference.run(case.model, batch)[0]), case.name
    done += 1
print(done)
