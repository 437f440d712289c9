"""The operators: equal bits by the library and by the definition, in both memory layouts; what compilers see."""

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
from edgemeta.toolchain.simulate.operators import (  # noqa: E402
    finite_range,
    fused,
    fused_rounding,
    grid_key,
    keep,
    range_operator,
    round_operator,
    round_tensor,
)

INTEGERS = Grid(24, 0, -128.0, 127.0)
FLOATS = Grid(3, -9, -448.0, 448.0, "nan")
COUNTER = torch.tensor([5, 6, 7, 2, 4])

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning:torch"),  # PyTorch's compiler imports its predecessor
    pytest.mark.timeout(900),
]
CASES: list[tuple[Grid, Any, int]] = [
    (FLOATS, "stochastic", 0),
    (FLOATS, "nearest_even", 2),
    (Grid(24, 0, -128.0, 127.0), "half_up", 0),
    (Grid(7, -133, -3e38, 3e38, "infinity"), "towards_zero", 0),
]


def images(layout: Any) -> Any:
    rng = np.random.default_rng(1)
    x = torch.from_numpy(np.ldexp(rng.normal(size=(6, 5, 7, 3)), rng.integers(-12, 12, (6, 5, 7, 3))))
    x = x.to(torch.float32)
    x.view(-1)[:3] = torch.tensor([torch.nan, torch.inf, -torch.inf])
    return x.to(memory_format=layout)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("grid", [INTEGERS, FLOATS])
@pytest.mark.parametrize("rounding", ["nearest_even", "half_up", "towards_zero", "stochastic"])
@pytest.mark.parametrize("channels", [1, 5])
def test_library_and_definition_give_equal_bits(layout: Any, grid: Grid, rounding: Any, channels: int) -> None:
    x = images(layout)
    scale = torch.linspace(0.01, 3, channels)
    lowest, highest = torch.full((channels,), grid.lowest), torch.linspace(1, grid.highest, channels)
    found, inside = round_tensor(x, scale, lowest, highest, COUNTER, grid_key(grid), rounding, 1)
    expected, expected_inside = round_by_definition(x, scale, lowest, highest, COUNTER, grid, rounding, 1)
    assert found.stride() == x.stride()
    assert torch.equal(found.nan_to_num(nan=1e30).view(torch.int32), expected.nan_to_num(nan=1e30).view(torch.int32))
    assert torch.equal(inside, expected_inside)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_blocks_by_library_and_definition(layout: Any) -> None:
    x = images(layout)
    scale = 2.0 ** torch.arange(-3, 5).repeat(100)[: block_view(x, 1)[:, ::2].numel()]
    scale = scale.reshape(block_view(x, 1)[:, ::2].shape)
    limits = torch.full((1,), -448.0), torch.full((1,), 448.0)
    found, inside = round_tensor(x, scale, *limits, COUNTER, grid_key(FLOATS), "stochastic", 1, 2)
    expected, expected_inside = round_by_definition(x, scale, *limits, COUNTER, FLOATS, "stochastic", 1, 2)
    assert torch.equal(found.nan_to_num(nan=1e30), expected.nan_to_num(nan=1e30))
    assert torch.equal(inside, expected_inside)


def test_rows_of_several_workers_are_those_of_one() -> None:
    """Six images: of one worker; of two that take turns, as PyTorch's distributed sampler deals them; of two halves."""
    x = images(torch.channels_last)
    one = torch.ones(1)

    def drawn(part: Any, first: int, stride: int) -> Any:
        counter = torch.tensor([5, 6, 7, first, stride])
        return round_tensor(part, one, -448 * one, 448 * one, counter, grid_key(FLOATS), "stochastic", 1)[0]

    whole = drawn(x, 0, 1)
    for worker in (0, 1):
        torch.testing.assert_close(drawn(x[worker::2], worker, 2), whole[worker::2], rtol=0, atol=0, equal_nan=True)
        half = slice(3 * worker, 3 * worker + 3)
        torch.testing.assert_close(drawn(x[half], 3 * worker, 1), whole[half], rtol=0, atol=0, equal_nan=True)


def test_the_gradient_ends_where_a_value_was_limited() -> None:
    x, one = images(torch.channels_last), torch.ones(1)
    _, inside = round_tensor(x, one, -4 * one, 4 * one, COUNTER, grid_key(INTEGERS), "half_up", 1)
    gradient = torch.randn(x.shape, generator=torch.Generator().manual_seed(1))  # lies otherwise in memory
    kept = keep(gradient, inside, x.stride())
    within = x.isnan() | ((x >= -4.5) & (x < 4.5))
    assert torch.equal(kept, torch.where(within, gradient, 0.0))


def test_the_range() -> None:
    x = images(torch.contiguous_format)
    finite = x[x.isfinite()]
    assert finite_range(x).tolist() == [finite.min(), finite.max()]
    assert finite_range(x[:, :, ::2]).tolist() == [
        x[:, :, ::2][x[:, :, ::2].isfinite()].min(),
        x[:, :, ::2][x[:, :, ::2].isfinite()].max(),
    ]
    assert finite_range(torch.full((3,), torch.nan)).tolist() == [0, 0]


def test_compilers_see_through() -> None:
    """PyTorch's own checks of custom operators: shapes, layouts, no hidden aliases."""
    x, one = images(torch.channels_last), torch.ones(1)
    arguments = (x, one, -4 * one, 4 * one, COUNTER, grid_key(INTEGERS), "stochastic", 1)
    checks = ("test_schema", "test_faketensor")
    torch.library.opcheck(round_operator, arguments, test_utils=checks)
    torch.library.opcheck(range_operator, (x,), test_utils=checks)
    _, inside = round_tensor(*arguments)
    torch.library.opcheck(keep, (x, inside, x.stride()), test_utils=checks)


def test_another_type_than_float32_is_refused() -> None:
    x, one = torch.ones(4, dtype=torch.bfloat16), torch.ones(1)
    with pytest.raises(TypeError, match=r"found a tensor of torch.bfloat16, expected torch.float32"):
        round_tensor(x, one, -one, one, torch.zeros(5, dtype=torch.int64), "3 -9 saturate", "nearest_even", 0)
    with pytest.raises(TypeError, match=r"found a tensor of torch.bfloat16"):
        finite_range(x)
    with pytest.raises(TypeError, match=r"found a gradient of torch.bfloat16"):
        keep(x, torch.full((1,), 15, dtype=torch.uint8), x.stride())


def devices(*cases: Any) -> Any:
    """All cases on a GPU; the first one here, too: the compiler takes ten seconds for each."""
    here = pytest.param("cpu", cases[0], marks=pytest.mark.gate("20 s: PyTorch's compiler"))
    return [here, *(pytest.param("cuda", case, marks=pytest.mark.gpu) for case in cases)]


def tensors(layout: Any, rows: int) -> Any:
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
            x = tensors(layout, rows)
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
    x = tensors(layout, 6)
    inside = torch.from_numpy(np.random.default_rng(1).integers(0, 256, (x.numel() + 7) // 8, dtype=np.uint8))
    assert_same_bits(fused(keep_by_definition)(x.to(device), inside.to(device)), keep_by_definition(x, inside))
    assert_same_bits(fused(range_by_definition)(x.to(device)), range_by_definition(x))
    assert_same_bits(fused(range_by_definition)(torch.full((3,), torch.nan).to(device)), torch.zeros(2))
