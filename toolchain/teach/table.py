"""The pictures as a table: a row of integer features for each view, as the integer layers give them."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.fixedpoint import rounding_shift
from edgemeta.model.layers import AveragePool, Layer, Lookup, Multiplier, TensorType
from edgemeta.tasks.numbers import Float64
from edgemeta.toolchain.teach.backbone import Plan
from edgemeta.toolchain.teach.features import PREFIX
from edgemeta.toolchain.teach.pictures import Pictures
from edgemeta.toolchain.teach.scales import Scale, make_scales
from edgemeta.toolchain.teach.views import MIRRORED


@dataclass(frozen=True, eq=False)
class Table:
    """features: int8 [N, views, D], D in H, W, C order of the last feature layer. y: [N]. labels: number of classes.

    side: rows and columns of the features' map. scales: how the features enter the regression.
    """

    features: NDArray[np.int8]
    y: NDArray[np.int64]
    labels: int
    side: int
    scales: tuple[Scale, ...]

    def rows(self, pictures: NDArray[np.integer], *, mirrored: bool) -> NDArray[np.int64]:
        """Rows of `products` that train with these pictures [n]: all their views, or those that are not mirrored."""
        views = [view for view in range(self.features.shape[1]) if mirrored or view not in MIRRORED]
        rows: NDArray[np.int64] = (pictures[:, np.newaxis] * self.features.shape[1] + np.array(views)).ravel()
        return rows

    def standardized(self) -> Float64:
        """All rows, one for each view of each picture, as they enter the regression: [N * views, features]."""
        maps = self.features.reshape(-1, self.side, self.side, self.features.shape[2] // self.side**2)
        return np.concatenate([scale.rows(maps.astype(np.float64)) for scale in self.scales], axis=1)


def make_table(pictures: Pictures, layers: Mapping[str, Layer], plan: Plan, importance: Float64) -> Table:
    """Compute the features as the layers do, from sums over each cell. importance: [D]."""
    parts = []
    for name, cells in plan.grids.items():
        pool, root = layers[f"{PREFIX}.mean.{name}"], layers[f"{PREFIX}.root.{name}"]
        assert isinstance(pool, AveragePool)
        assert isinstance(root, Lookup)
        integers = _looked_up(root, pool.output, _pooled(pool, pictures.sums[name]))
        factor = plan.cells // cells
        parts.append(integers.repeat(factor, axis=2).repeat(factor, axis=3))
    joined = np.concatenate(parts, axis=4)
    scales = make_scales(joined[:, 0].astype(np.float64), importance)
    features = joined.reshape(*joined.shape[:2], -1)
    return Table(features, pictures.y, len(pictures.labels), plan.cells, scales)


def _pooled(pool: AveragePool, sums: NDArray[np.int32]) -> NDArray[np.int64]:
    assert isinstance(pool.requantize, Multiplier)
    products = sums.astype(np.int64) * pool.requantize.multiplier.astype(np.int64)
    rounded = rounding_shift(products, pool.requantize.shift) + pool.output.zero_point
    return np.clip(rounded, pool.requantize.lo, pool.requantize.hi)


def _looked_up(root: Lookup, kind: TensorType, integers: NDArray[np.int64]) -> NDArray[np.int8]:
    entries = root.entries[np.arange(len(root.entries)), integers - (-128 if kind.signed else 0)]
    return entries.astype(np.int8, copy=False)
