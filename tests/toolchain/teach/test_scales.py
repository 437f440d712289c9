"""A function of all scales is one of the cells alone."""

import numpy as np

from edgemeta.toolchain.teach.scales import COARSE_SHARE, make_scales, weights_of_cells


def test_the_weights_of_all_scales_are_weights_of_cells() -> None:
    rng = np.random.default_rng(2)
    maps = rng.normal(5, 3, (12, 4, 4, 6))
    scales = make_scales(maps, np.ones(96))
    assert [scale.cells for scale in scales] == [4, 2, 1]
    rows = np.concatenate([scale.rows(maps) for scale in scales], axis=1)
    weights = rng.normal(size=(rows.shape[1], 3))
    of_cells, offset = weights_of_cells(scales, weights, 4)
    np.testing.assert_allclose(maps.reshape(12, -1) @ of_cells - offset, rows @ weights, rtol=1e-9, atol=1e-9)


def test_the_coarser_scales_count_less_than_the_cells() -> None:
    maps = np.random.default_rng(3).normal(size=(30, 8, 8, 5))
    lengths = [(scale.rows(maps) ** 2).sum(1).mean() for scale in make_scales(maps, np.full(320, 0.3))]
    np.testing.assert_allclose(lengths, [1, COARSE_SHARE, COARSE_SHARE])


def test_a_map_that_a_coarse_scale_does_not_divide_goes_without() -> None:
    maps = np.random.default_rng(4).normal(size=(9, 3, 3, 2))
    assert [scale.cells for scale in make_scales(maps, np.ones(18))] == [3, 1]
