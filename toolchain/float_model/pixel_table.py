"""The table that gives a network's input integers for pixels."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.layers import TensorType


def pixel_table(
    kind: TensorType, mean: Sequence[float], scale: Sequence[float]
) -> NDArray[np.int8] | NDArray[np.uint8]:
    """[1 or C, 256]: the integer of type `kind` nearest to (pixel - mean) / scale, half up, for each channel.

    mean, scale: one number, or one for each channel.
    """
    count = max(len(mean), len(scale))
    means, scales = (np.resize(np.array(each, np.float64), count)[:, np.newaxis] for each in (mean, scale))
    real = (np.arange(256) - means) / scales
    nearest = np.floor(real / kind.scale + 0.5) + kind.zero_point
    integers: NDArray[np.int8] | NDArray[np.uint8] = np.clip(nearest, kind.lo, kind.hi).astype(kind.dtype)
    return integers
