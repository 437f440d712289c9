"""Runs conformance cases in modules built for AddressSanitizer: python this.py CONFORMANCE ARCHITECTURE NAME...

Started by test_sanitized.py with the sanitizers preloaded; no names: every case that lowers.
"""

import sys

sys.path.append(sys.argv[1])

import numpy as np
from cases import CASES

from edgemeta.kernels.cuda.architectures import ARCHITECTURES
from edgemeta.kernels.cuda.lowering import lower
from edgemeta.kernels.cuda.plan import UnsupportedError
from edgemeta.kernels.emulation.executor import Emulator
from edgemeta.model import reference

done = 0
for case in CASES:
    if sys.argv[3:] and case.name not in sys.argv[3:]:
        continue
    try:
        plan = lower(case.model, ARCHITECTURES[sys.argv[2]])
    except UnsupportedError:
        continue
    emulator = Emulator(plan, mode="address")
    for _, batch in case.batches():
        assert np.array_equal(emulator.run(batch), reference.run(case.model, batch)), case.name
    done += 1
print(done)
