"""Inputs with known answers for a model's file: a backend that gives other integers than the reference must not serve.

The inputs are made of squares of noise, so that both fine texture and wide areas reach every layer, and of the
darkest and the lightest picture. They follow from the input's type alone.
"""

import dataclasses
import hashlib

import numpy as np
from numpy.typing import NDArray

from edgemeta.model import reference
from edgemeta.model.graph import Model, SelfTest
from edgemeta.model.layers import TensorType

SQUARES = (1, 2, 4, 8)
"""Sides, in elements, of the noise's squares: one input each."""


def with_self_test(model: Model) -> Model:
    """Return the proved model with inputs of its own, answered by the reference interpreter."""
    batch = noise(model.input)
    return dataclasses.replace(model, self_test=SelfTest(batch, reference.run(model, batch)))


def noise(kind: TensorType) -> NDArray[np.int8] | NDArray[np.uint8]:
    """Inputs [N, H, W, C] of a type: its least value, its greatest, and noise over its whole range in squares."""
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
