"""Lets the tests of the float32 kernels make their network as the GPU benchmark does."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[4] / "benchmarks" / "gpu"))
