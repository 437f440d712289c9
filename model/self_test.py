"""Self-test data for a model file: a backend that does not reproduce the reference's logits must not be used.

The inputs are noise in squares of several sizes, so that both fine texture and large areas reach every layer, and the
darkest and the brightest image. They depend on the input type only.
"""

import dataclasses
import hashlib

import numpy as np
from numpy.typing import NDArray

from edgemeta.model import reference
from edgemeta.model.graph import Model, SelfTest
from edgemeta.model.layers import TensorType

SQUARES = (1, 2, 4, 8)
"""Side lengths, in elements, of the noise squares: one input each."""


def with_self_test(model: Model) -> Model:
    """Return the model with self-test inputs and the logits that the reference interpreter computes for them."""
    batch = noise(model.input)
    return dataclasses.replace(model, self_test=SelfTest(batch, reference.run(model, batch)))


def noise(kind: TensorType) -> NDArray[np.int8] | NDArray[np.uint8]:
    """Inputs [N, H, W, C] of a type: all least, all greatest values, and squares of noise over the full range."""
    height, width, channels = kind.shape
    levels = kind.hi - kind.lo + 1
    images = [np.full(kind.shape, value) for value in (kind.lo, kind.hi)]
    for side in SQUARES:
        rows, columns = -(-height // side), -(-width // side)
        drawn = hashlib.shake_128(f"self-test {side}".encode()).digest(rows * columns * channels)
        squares = kind.lo + np.frombuffer(drawn, np.uint8).reshape(rows, columns, channels).astype(np.int64) % levels
        images.append(squares.repeat(side, 0).repeat(side, 1)[:height, :width])
    stacked = np.stack(images)
    return stacked.astype(np.int8) if kind.signed else stacked.astype(np.uint8)
