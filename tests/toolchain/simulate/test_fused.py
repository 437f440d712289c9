"""The definitions as PyTorch's compiler fuses them: the bits of the definition, here on the CPU and on a real GPU."""

from typing import Any

import numpy as np
import pytest

from edgemeta.toolchain.number_formats.grid import Grid

torch = pytest.importorskip("torch", reason="PyTorch is not installed (pip install 'edgemeta[train]')")

from edgemeta.toolchain.simulate.definition import (  # noqa: E402
    block_view,
    keep_by_definition,
    range_by_definition,
    round_by_definition,
)
from edgemeta.toolchain.simulate.fused import fused, fused_rounding  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning:torch"),  # PyTorch's compiler imports its predecessor
    pytest.mark.timeout(900),
]

COUNTER = torch.tensor([5, 6, 7, 2, 4])
FLOATS = Grid(3, -9, -448.0, 448.0, "nan")
CASES: list[tuple[Grid, Any, int]] = [
    (FLOATS, "stochastic", 0),
    (FLOATS, "nearest_even", 2),
    (Grid(24, 0, -128.0, 127.0), "half_up", 0),
    (Grid(7, -133, -3e38, 3e38, "infinity"), "towards_zero", 0),
]


def devices(*cases: Any) -> Any:
    """All cases on a GPU; the first one here, too: the compiler takes ten seconds for each."""
    here = pytest.param("cpu", cases[0], marks=pytest.mark.gate("20 s: PyTorch's compiler"))
    return [here, *(pytest.param("cuda", case, marks=pytest.mark.gpu) for case in cases)]


def images(layout: Any, rows: int) -> Any:
    rng = np.random.default_rng(rows)
    x = np.ldexp(rng.normal(size=(rows, 5, 7, 3)), rng.integers(-150, 120, (rows, 5, 7, 3))).astype(np.float32)
    tensor = torch.from_numpy(x)
    tensor.view(-1)[:4] = torch.tensor([torch.nan, torch.inf, -torch.inf, -0.0])
    return tensor.to(memory_format=layout)


def assert_same_bits(found: Any, expected: Any) -> None:
    assert found.stride() == expected.stride()
    found, expected = (
        each.cpu().nan_to_num(nan=1e30, posinf=torch.inf, neginf=-torch.inf) for each in (found, expected)
    )
    assert torch.equal(found.view(torch.int32), expected.view(torch.int32))


@pytest.mark.parametrize(("device", "case"), devices(*CASES))
def test_rounding(device: str, case: tuple[Grid, Any, int]) -> None:
    """Subnormals and special values; scales that are no powers of two; other shapes without a new compilation."""
    grid, rounding, block = case
    for layout in (torch.contiguous_format, torch.channels_last):
        for rows in (6, 9):
            x = images(layout, rows)
            scale, lows, highs = torch.linspace(0.01, 3, 5), torch.full((5,), grid.lowest), torch.linspace(1, 400, 5)
            if block:
                view = block_view(x, 1)[:, ::block]
                scale = 2.0 ** (torch.arange(view.numel()) % 8 - 3.0).reshape(view.shape)
                lows, highs = torch.full((1,), grid.lowest), torch.full((1,), grid.highest)
            inputs = x, scale, lows, highs, COUNTER
            y, inside = fused_rounding(grid, rounding, 1, block)(*(each.to(device) for each in inputs))
            expected, expected_inside = round_by_definition(*inputs, grid, rounding, 1, block)
            assert_same_bits(y, expected)
            assert torch.equal(inside.cpu(), expected_inside)


@pytest.mark.parametrize(("device", "layout"), devices(torch.channels_last, torch.contiguous_format))
def test_gradient_and_range(device: str, layout: Any) -> None:
    x = images(layout, 6)
    inside = torch.from_numpy(np.random.default_rng(1).integers(0, 256, (x.numel() + 7) // 8, dtype=np.uint8))
    assert_same_bits(fused(keep_by_definition)(x.to(device), inside.to(device)), keep_by_definition(x, inside))
    assert_same_bits(fused(range_by_definition)(x.to(device)), range_by_definition(x))
    assert_same_bits(fused(range_by_definition)(torch.full((3,), torch.nan).to(device)), torch.zeros(2))
