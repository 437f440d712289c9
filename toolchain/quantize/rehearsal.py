"""Whether an integer network can have a float network's structure: asked before any image is calibrated.

The integer network is built with zeros for weights and the image's quantization for every tensor, and proved. So what
the model format requires of shapes, sizes, names and outputs is said in one place, `edgemeta.model.prove`.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.errors import ModelError
from edgemeta.model.graph import INPUT, FloatModel
from edgemeta.model.layers import Weighted
from edgemeta.model.prove import prove
from edgemeta.model.prove_float import prove_float
from edgemeta.model.tasks import compares_channels
from edgemeta.model.weights import FixedWeights
from edgemeta.toolchain.errors import QuantizeError
from edgemeta.toolchain.quantize.blocks import Block, blocks_of
from edgemeta.toolchain.quantize.folded import Folded
from edgemeta.toolchain.quantize.image import image_type
from edgemeta.toolchain.quantize.lower import Lowering, raw_outputs


def rehearse(model: FloatModel, source: str) -> None:
    """Raise QuantizeError with `source` and the layer if no integer network can have the structure of the model."""
    shapes, blocks, image = prove_float(model, source), blocks_of(model), image_type(model)
    types = {INPUT: image} | {block.name: replace(image, shape=shapes[block.after]) for block in blocks}
    raw = raw_outputs(model, blocks)
    policy = Folded(_Zeros(blocks), "multiplier", compares_channels(model.task))
    try:
        prove(Lowering(model, blocks, types, policy, raw).build())
    except ModelError as error:
        raise QuantizeError(f"{source}: {error}") from None


class _Zeros:
    """Weights of 0, and no bias, as `folded.Integers`."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        self._shapes = {each.name: each.core.weights.shape for each in blocks if isinstance(each.core, Weighted)}

    def bias(self, name: str) -> NDArray[np.float64]:
        """As Integers."""
        return np.zeros(self._shapes[name][0])

    def magnitude(self, name: str) -> NDArray[np.float64]:
        """As Integers."""
        return np.zeros(self._shapes[name][0])

    def integers(self, name: str, per_channel: bool, _least_scale: NDArray[np.float64]) -> FixedWeights:
        """As Integers."""
        shape = self._shapes[name]
        return FixedWeights(np.zeros(shape, np.int8), 8, np.ones(shape[0] if per_channel else 1))
