"""The library gives the bits of the definition in PyTorch, with every instruction set and number of threads."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgemeta.kernels.cpu.library import LibraryError
from edgemeta.kernels.simulate.library import (
    BEYOND,
    BINS,
    ISA_NAMES,
    ROUNDINGS,
    Places,
    best_isa,
    errors_at,
    histogram_at,
    keep_at,
    range_at,
    round_at,
)
from edgemeta.kernels.simulate.library import Rounding as Rule
from edgemeta.toolchain.number_formats.grid import Grid

torch = pytest.importorskip("torch", reason="PyTorch is not installed (pip install 'edgemeta[train]')")

from edgemeta.toolchain.number_formats import rounding as definition  # noqa: E402
from edgemeta.toolchain.simulate.definition import random_words  # noqa: E402

ISAS = ISA_NAMES[1 : ISA_NAMES.index(best_isa()) + 1]
GREATEST = float(np.finfo(np.float32).max)
GRIDS = (
    Grid(3, -9, -448.0, 448.0),
    Grid(7, -133, -(2.0**127) * 1.9921875, 2.0**127 * 1.9921875, "infinity"),
    Grid(24, -5, -4.0, 3.96875),
    Grid(0, -3, -1.0, 1.0),
    Grid(0, -126, -(2.0**-100), 2.0**-100, "nan"),
    Grid(24, 0, -128.0, 127.0),
    Grid(23, -149, -(2.0**127), 2.0**127),
    Grid(2, 100, -(2.0**103), 2.0**103),
    Grid(1, -126, -(2.0**127), 2.0**127, "nan"),
    Grid(1, 126, -(2.0**127), 2.0**127, "infinity"),
    Grid(22, -148, -(2.0**127), 2.0**127),
    Grid(22, -126, -(2.0**127), 2.0**127),
    Grid(5, -130, -(2.0**120), 2.0**120),
)


def round_to_grid(x: NDArray[np.float32], grid: Grid, rounding: Any, words: Any = None) -> NDArray[np.float32]:
    result: NDArray[np.float32] = definition.round_to_grid(torch.from_numpy(x), grid, rounding, words).numpy()
    return result


def patterns(count: int) -> NDArray[np.float32]:
    """Every kind of float32: random patterns, usual magnitudes, subnormals, ties, zeros, infinities and NaN."""
    rng = np.random.default_rng(count)
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 3.4e38, 1.5, 2.5, -0.5], np.float32)
    parts = [
        rng.integers(0, 2**32, count, np.uint64).astype(np.uint32).view(np.float32),
        np.ldexp(rng.normal(size=count), rng.integers(-15, 15, count)).astype(np.float32),
        np.ldexp(rng.integers(-64, 64, count).astype(np.float64), rng.integers(-10, 3, count)).astype(np.float32),
        rng.integers(0, 2**24, count).astype(np.uint32).view(np.float32),
        np.resize(special, count),
    ]
    return np.resize(rng.permutation(np.concatenate(parts)), count)


def rounded(
    x: NDArray[np.float32], rule: Rule, shape: tuple[int, int, int] | None = None, **options: Any
) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    y, inside = np.empty_like(x), np.zeros((x.size + 7) // 8, np.uint8)
    shape = shape or (x.size, 1, 1)
    round_at(x.ctypes.data, y.ctypes.data, shape, rule, inside=inside.ctypes.data, **options)
    return y, np.unpackbits(inside, count=x.size, bitorder="little").astype(np.bool_).reshape(x.shape)


def rule_of(grid: Grid, rounding: str, scale: NDArray[np.float32] | None = None) -> Rule:
    limits = (np.array([limit], np.float32) for limit in (grid.lowest, grid.highest))
    return Rule(grid.mantissa, grid.quantum, rounding, grid.beyond, *limits, scale)


def assert_same(found: NDArray[np.float32], expected: NDArray[np.float32]) -> None:
    """Equal bits; of NaN only that it is one."""
    nan = np.isnan(expected)
    np.testing.assert_array_equal(np.isnan(found), nan)
    np.testing.assert_array_equal(found[~nan].view(np.uint32), expected[~nan].view(np.uint32))


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_every_grid(isa: str, rounding: Any) -> None:
    x = patterns(10_007)
    places = Places(seed=3 << 40, step=2, tensor=9, row=977, first=1, stride=3)
    rows, columns = np.divmod(np.arange(x.size), places.row)
    whole = (places.first + rows * places.stride) * places.row + columns
    words = random_words(torch.from_numpy(whole), 3 << 40, 2, 9)
    for grid in GRIDS:
        found, inside = rounded(x, rule_of(grid, rounding), isa=isa, places=places)
        expected = round_to_grid(x, grid, rounding, words)
        assert_same(found, expected)
        unlimited = Grid(grid.mantissa, grid.quantum, -GREATEST, GREATEST, "infinity")
        free = round_to_grid(x, unlimited, rounding, words)
        np.testing.assert_array_equal(inside, np.isnan(x) | (free >= grid.lowest) & (free <= grid.highest))


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("shape", [(1, 5, 600), (700, 5, 1), (3, 2000, 1), (4, 7, 33)])
def test_a_scale_for_each_channel(isa: str, shape: tuple[int, int, int]) -> None:
    x = patterns(int(np.prod(shape))).reshape(shape)
    rng = np.random.default_rng(1)
    scale = np.float32(2) ** rng.uniform(-12, 3, shape[1]).astype(np.float32)
    lowest = rng.integers(-128, 0, shape[1]).astype(np.float32)
    rule = Rule(24, 0, "half_up", "saturate", lowest, lowest + 255, scale)
    found, _ = rounded(x, rule, shape, isa=isa, threads=2)
    with np.errstate(over="ignore", invalid="ignore"):
        for c in range(shape[1]):
            grid = Grid(24, 0, float(lowest[c]), float(lowest[c] + 255))
            expected = round_to_grid(np.ascontiguousarray(x[:, c]) / scale[c], grid, "half_up") * scale[c]
            assert_same(found[:, c], expected)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("shape", [(300, 70, 1), (3, 64, 29), (2, 5, 600)])
def test_a_scale_for_each_block_of_channels(isa: str, shape: tuple[int, int, int]) -> None:
    x = patterns(int(np.prod(shape))).reshape(shape)
    blocks, grid = -(-shape[1] // 32), Grid(3, -9, -448.0, 448.0)
    exponents = np.random.default_rng(1).integers(-20, 20, (shape[0], blocks, shape[2]))
    scale = np.ldexp(np.float32(1), exponents).astype(np.float32)
    limits = (np.array([limit], np.float32) for limit in (grid.lowest, grid.highest))
    rule = Rule(grid.mantissa, grid.quantum, "nearest_even", "saturate", *limits, scale, block=32)
    found, _ = rounded(x, rule, shape, isa=isa)
    each = np.repeat(scale, 32, 1)[:, : shape[1]]
    with np.errstate(over="ignore", invalid="ignore"):
        assert_same(found, round_to_grid(x / each, grid, "nearest_even") * each)


@pytest.mark.parametrize("beyond", BEYOND)
def test_in_place_and_on_many_threads(beyond: Any) -> None:
    """Several units, the last one incomplete."""
    x = patterns(300_001)
    rule, places = rule_of(Grid(3, -9, -448.0, 448.0, beyond), "stochastic"), Places(1, 2, 3, 300_001)
    alone, inside_alone = rounded(x, rule, places=places)
    for threads in (2, 3, 8):
        found, inside = rounded(x, rule, places=places, threads=threads)
        np.testing.assert_array_equal(found.view(np.uint32), alone.view(np.uint32))
        np.testing.assert_array_equal(inside, inside_alone)
    same = x.copy()
    round_at(same.ctypes.data, same.ctypes.data, (x.size, 1, 1), rule, places=places, threads=2)
    np.testing.assert_array_equal(same.view(np.uint32), alone.view(np.uint32))


@pytest.mark.parametrize("isa", ISAS)
def test_the_range_of_finite_elements(isa: str) -> None:
    for count in (1, 2, 17, 100_003):
        x = patterns(count)
        finite = x[np.isfinite(x)]
        expected = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
        assert range_at(x.ctypes.data, count, isa=isa, threads=2) == expected
    nothing = np.array([np.nan, np.inf], np.float32)
    assert range_at(nothing.ctypes.data, 2, isa=isa) == range_at(nothing.ctypes.data, 0, isa=isa) == (0.0, 0.0)


@pytest.mark.parametrize("isa", ISAS)
def test_only_what_was_not_limited_is_kept(isa: str) -> None:
    x = patterns(70_003)
    inside = np.random.default_rng(1).random(x.size) < 0.7
    bits = np.packbits(inside, bitorder="little")
    y = np.empty_like(x)
    keep_at(x.ctypes.data, y.ctypes.data, bits.ctypes.data, x.size, isa=isa, threads=2)
    np.testing.assert_array_equal(y.view(np.uint32), np.where(inside, x.view(np.uint32), 0))


def histogram_of(x: NDArray[np.float32]) -> NDArray[np.int64]:
    """By NumPy: the rank of each finite element's upper 15 bits among those of all floats, in order."""
    words = np.arange(BINS, dtype=np.uint32) << 17
    least = np.where(words >> 31, -(words & 0x7FFF_FFFF).astype(np.int64) - 1, words.astype(np.int64))
    order = np.empty(BINS, np.int64)
    order[least.argsort()] = np.arange(BINS)
    return np.bincount(order[x[np.isfinite(x)].view(np.uint32) >> 17], minlength=BINS)


@pytest.mark.parametrize("count", [0, 1, 3, 4, 1023, 40_001, 150_000])
def test_every_finite_element_is_in_its_bin(count: int) -> None:
    x = patterns(max(count, 1))[:count]
    expected = histogram_of(x)
    assert expected.sum() == np.isfinite(x).sum()
    for threads in (1, 2, 3):
        np.testing.assert_array_equal(histogram_at(x.ctypes.data, count, threads=threads), expected)
    same = np.full(count, -1.5, np.float32)
    assert (
        histogram_at(same.ctypes.data, count, threads=2)[histogram_of(np.array([-1.5], np.float32)).argmax()] == count
    )


def test_an_instruction_set_that_the_machine_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    from edgemeta.kernels.simulate import library

    monkeypatch.setattr(library, "ISA_NAMES", (*ISA_NAMES, "avx1024"))
    x = patterns(8)
    with pytest.raises(LibraryError, match="this machine has no avx1024, its best is"):
        range_at(x.ctypes.data, 8, isa="avx1024")


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("count", [1, 15, 16, 17, 300])
def test_square_errors_of_candidates(isa: str, count: int) -> None:
    """As NumPy has them, with the same sum on every instruction set: lane by lane."""
    rng = np.random.default_rng(count)
    x = np.ldexp(rng.normal(size=(7, count)), rng.integers(-140, 127, (7, count))).astype(np.float32)
    x[1:] = rng.integers(-40, 41, (6, count)) / np.float32(8)  # ties, and zeros
    scale = np.float32(2) ** rng.uniform(-12, 3, (7, 60)).astype(np.float32)
    scale[:, ::3] = 0.25
    lowest = -rng.integers(0, 1 << 16, scale.shape).astype(np.float32)
    highest = rng.integers(0, 1 << 16, scale.shape).astype(np.float32)
    with np.errstate(over="ignore"):
        quotient = x[:, None] / scale[..., None]
        y = np.clip(np.rint(quotient), lowest[..., None], highest[..., None]) * scale[..., None]
    squares = np.square(y.astype(np.float64) - x[:, None])
    lanes = np.zeros((7, 60, 16))
    for i in range(count):
        lanes[..., i % 16] += squares[..., i]
    expected = np.zeros((7, 60))
    for lane in range(16):
        expected += lanes[..., lane]
    for threads in (1, 3):
        np.testing.assert_array_equal(
            errors_at(x.ctypes.data, x.shape, scale, lowest, highest, isa=isa, threads=threads), expected
        )
