"""Every kernel of the simulator's library under AddressSanitizer and UndefinedBehaviorSanitizer, beside NumPy."""

from pathlib import Path

import pytest

from tests.sanitized import run_sanitized

PROGRAM = """
import numpy as np

from benchmarks.simulate_oracles import random_words, round_in_doubles
from edgemeta.kernels.simulate.library import (
    BEYOND, ISA_NAMES, ROUNDINGS, Places, Rounding, best_isa, errors_at, histogram_at, keep_at, range_at, round_at
)
from edgemeta.toolchain.number_formats.grid import Grid

isas = ISA_NAMES[1 : ISA_NAMES.index(best_isa()) + 1]
rng = np.random.default_rng(0)
grids = (Grid(3, -9, -448.0, 448.0), Grid(24, 0, -128.0, 127.0), Grid(0, -126, -(2.0**-100), 2.0**-100),
         Grid(7, -133, -(2.0**127), 2.0**127), Grid(23, -149, -(2.0**127), 2.0**127))
shapes = [(0, 1, 1), (1, 1, 1), (3, 1, 7), (1, 5, 13), (7, 33, 1), (2, 70, 3), (1, 1, 1023), (5, 9, 111),
          (1, 3, 40_001)]
number = 0
for outer, channels, inner in shapes:
    x = rng.integers(0, 1 << 32, outer * channels * inner, np.uint64).astype(np.uint32).view(np.float32)
    near = np.ldexp(rng.normal(size=x.size), rng.integers(-12, 12, x.size)).astype(np.float32)
    x = np.where(rng.random(x.size) < 0.5, x, near).reshape(outer, channels, inner)
    for grid in grids:
        for rounding in ROUNDINGS:
            for block in (0, 2, 32):
                number += 1
                beyond = BEYOND[number % 3]
                grid = Grid(grid.mantissa, grid.quantum, grid.lowest, grid.highest, beyond)
                of = (outer, -(-channels // block), inner) if block else (channels,)
                scale = np.ldexp(1.0, rng.integers(-3, 4, of)).astype(np.float32)
                if block:
                    each = np.repeat(scale, block, 1)[:, :channels]
                else:
                    scale *= np.float32(1.0 + number % 2 / 3)
                    each = scale[:, np.newaxis]
                limits = np.ones((2, 1 if block else channels), np.float32) * np.array([[grid.lowest], [grid.highest]])
                limits = limits.astype(np.float32)
                rule = Rounding(grid.mantissa, grid.quantum, rounding, beyond, *limits, scale, block)
                places = Places(5 << 33, 1, number, max(1, x[:1].size), 2, 3)
                rows, columns = np.divmod(np.arange(x.size, dtype=np.uint64), np.uint64(places.row))
                words = random_words((2 + rows * 3) * np.uint64(places.row) + columns, 5 << 33, 1, number)
                low, high = (np.float64(end) for end in (grid.lowest, grid.highest))
                with np.errstate(all="ignore"):
                    y, inside = round_in_doubles(x / each, grid, low, high, rounding, words.reshape(x.shape))
                    y = y * each
                for isa in isas:
                    for threads in (1, 3):
                        found, bits = np.empty_like(x), np.empty((x.size + 7) // 8, np.uint8)
                        at = x.ctypes.data, found.ctypes.data, x.shape
                        round_at(*at, rule, inside=bits.ctypes.data, places=places, threads=threads, isa=isa)
                        same = found.view(np.uint32) == y.view(np.uint32)
                        assert (same | np.isnan(found) & np.isnan(y)).all(), (isa, grid, rounding, block, x.shape)
                        flags = np.unpackbits(bits, count=x.size, bitorder="little").astype(bool)
                        assert (flags == inside.ravel()).all(), (isa, grid, rounding, block, x.shape)
                        if number % 7 == 0:
                            kept = np.empty_like(x)
                            keep_at(x.ctypes.data, kept.ctypes.data, bits.ctypes.data, x.size, threads=threads, isa=isa)
                            assert (kept.view(np.uint32).ravel() == np.where(flags, x.view(np.uint32).ravel(), 0)).all()
                            finite = x[np.isfinite(x)]
                            ends = (finite.min(), finite.max()) if finite.size else (0.0, 0.0)
                            assert range_at(x.ctypes.data, x.size, threads=threads, isa=isa) == ends
                            assert histogram_at(x.ctypes.data, x.size, threads=threads).sum() == finite.size
for rows, count, candidates in ((1, 1, 1), (3, 17, 25), (5, 33, 26), (2, 4000, 100)):
    x = rng.normal(size=(rows, count)).astype(np.float32)
    scale = (0.01 + rng.random((rows, candidates))).astype(np.float32)
    ends = np.full_like(scale, 127)
    y = np.clip(np.rint(x[:, None] / scale[..., None]), -127, 127) * scale[..., None]
    expected = np.square(y.astype(np.float64) - x[:, None]).sum(2)
    for isa in isas:
        for threads in (1, 3):
            errors = errors_at(x.ctypes.data, x.shape, scale, -ends, ends, threads=threads, isa=isa)
            assert np.allclose(errors, expected, rtol=1e-12), (isa, x.shape)
print("clean")
"""


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_no_access_out_of_bounds_and_no_undefined_behaviour(repository: Path, tmp_path: Path) -> None:
    assert run_sanitized(repository, tmp_path, "simulate", PROGRAM) == "clean"
