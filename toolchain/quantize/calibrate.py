"""Statistics of the float network over the calibration images: one image at a time, so memory stays bounded."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from edgemeta.toolchain.errors import QuantizeError
from edgemeta.toolchain.float_model.forward import walk
from edgemeta.toolchain.float_model.graph import Float32, FloatModel
from edgemeta.toolchain.quantize.blocks import Block
from edgemeta.toolchain.quantize.calibration import PreparedImages
from edgemeta.toolchain.quantize.ranges import Histogram

Stage = Callable[[int, int], None]
"""Called with (images done, all images)."""

Channels = NDArray[np.float64]
"""One number for each channel."""

_GREATEST = 2.0**50
"""Of a tensor's values: their squares can be added in float32."""
_SAMPLE = 1 << 15
"""Values of one tensor and image that are counted in its histogram, at least, if it has as many."""


class Statistics:
    """What the tensors of a float network hold over the calibration images.

    histograms: of every block's output. reach: greatest magnitude of each of its channels. means: mean of each channel
    before the activation, for blocks with weights. Keys are names of float tensors.
    """

    def __init__(
        self, model: FloatModel, blocks: Sequence[Block], images: PreparedImages, stage: Stage | None = None
    ) -> None:
        self.histograms = {block.after: Histogram() for block in blocks}
        self.reach: dict[str, Channels] = {}
        sums: dict[str, Channels] = {}
        before = {block.before for block in blocks if block.has_weights}
        for done, image in enumerate(images, 1):
            for name, tensor in walk(model, images.real(image)):
                if name in self.histograms:
                    self._count(model, name, tensor)
                if name in before:
                    sums[name] = sums.get(name, 0.0) + tensor.mean((0, 1, 2), dtype=np.float64)
            if stage is not None:
                stage(done, len(images))
        self.means: Mapping[str, Channels] = {name: total / len(images) for name, total in sums.items()}

    def _count(self, model: FloatModel, name: str, tensor: Float32) -> None:
        flat = tensor.reshape(-1, tensor.shape[3])
        low, high = flat.min(0), flat.max(0)
        least, greatest = float(low.min()), float(high.max())
        reach = max(-least, greatest)
        if not reach <= _GREATEST:
            found = f"as great as {reach:g}" if np.isfinite(reach) else "infinite"
            raise QuantizeError(
                f"{model.name}: tensor {name!r} becomes {found} on the calibration images, expected at most "
                f"{_GREATEST:g}"
            )
        values = tensor.reshape(-1)
        step = max(1, len(values) // _SAMPLE)
        self.histograms[name].add(values[:: step | 1], least, greatest)  # an odd step visits all channels
        reaches = np.maximum(np.abs(low), np.abs(high)).astype(np.float64)
        self.reach[name] = np.maximum(self.reach.get(name, reaches), reaches)

    def joined(self, names: Iterable[str]) -> Histogram:
        """One histogram of the values of several tensors."""
        together = Histogram()
        for name in names:
            together.merge(self.histograms[name])
        return together
