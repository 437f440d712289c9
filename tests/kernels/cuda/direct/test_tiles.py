"""Tiles by rule: the guarantees that the kernel relies on, for shapes of all kinds."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgemeta.kernels.cuda.direct.tiles import Geometry, blocks, layout, passes, tiles
from edgemeta.kernels.cuda.plan.architectures import ARCHITECTURES

sides = st.integers(1, 70)


@st.composite
def geometries(draw: st.DrawFn) -> Geometry:
    vector = draw(st.sampled_from([4, 8, 16]))
    return Geometry(
        draw(sides),
        draw(sides),
        draw(st.integers(1, 300)),
        (draw(st.integers(1, 7)), draw(st.integers(1, 7))),
        (draw(st.integers(1, 3)), draw(st.integers(1, 3))),
        vector * draw(st.integers(1, 40)),
        draw(st.sampled_from([2, 4])),
        vector,
        draw(st.booleans()),
    )


@settings(max_examples=25)
@given(geometries(), st.sampled_from(sorted(ARCHITECTURES)))
def test_a_tile_covers_the_layer_and_fits(geometry: Geometry, name: str) -> None:
    possible = tiles(geometry, ARCHITECTURES[name])
    assert possible
    for tile in possible[:8]:
        sizes = layout(geometry, tile)
        across, along = blocks(geometry, tile)
        assert across * tile.tile_y * tile.tile_x * tile.pixels >= geometry.height * geometry.width
        assert along * tile.block_filters >= geometry.filters
        assert passes(geometry, tile) * tile.chunk * geometry.depth >= geometry.channels
        assert tile.chunk % tile.split == 0
        assert tile.pixels % tile.split == 0
        assert tile.chunk * geometry.depth % geometry.vector_bytes == 0
        assert 4 * sizes.words <= min(48 * 1024, ARCHITECTURES[name].shared_bytes)
        # 16-byte loads: every row, plane and the weights begin at a multiple of 4 words where 4 pixels are read.
        if tile.pixels % 4 == 0:
            assert sizes.phase_words % 4 == sizes.row_words % 4 == 0
        assert sizes.plane_words % 4 == sizes.weights_at % 4 == sizes.scratch_at % 4 == 0


@pytest.mark.parametrize(
    ("size", "channels", "filters", "threads_at_least"), [(32, 16, 16, 256), (16, 32, 32, 256), (8, 64, 64, 256)]
)
def test_resnet8_keeps_a_nano_busy(size: int, channels: int, filters: int, threads_at_least: int) -> None:
    """At least eight warps with 32 sums per thread, or 16 with few pixels: enough for a multiprocessor."""
    geometry = Geometry(size, size, filters, (3, 3), (1, 1), channels, 2, 16, beside=False)
    best = tiles(geometry, ARCHITECTURES["sm_53"])[0]
    across, along = blocks(geometry, best)
    assert across * along * best.threads >= threads_at_least
    assert best.pixels * best.filters >= (16 if size == 8 else 32)
