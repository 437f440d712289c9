"""Self-test data for a model file: a backend that does not reproduce the reference's outputs must not be used.

The inputs are noise in squares of several sizes, so that both fine texture and large areas reach every layer, and the
darkest and the brightest image. A network with a large input has one input that is all of this in horizontal bands, so
that the file stays small. They depend on the input type only.
"""

import dataclasses
import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgemeta.model import reference
from edgemeta.model.graph import Model, SelfTest
from edgemeta.model.layers import TensorType

SQUARES = (1, 2, 4, 8)
"""Side lengths, in elements, of the noise squares: one input each."""


LARGE = 1 << 16
"""Elements of an input from which on the self-test has one input only."""


def with_self_test(model: Model) -> Model:
    """Return the model with self-test inputs and the outputs that the reference interpreter computes for them."""
    batch = noise(model.input)
    if batch[0].size >= LARGE:
        batch = bands(batch)
    return dataclasses.replace(model, self_test=SelfTest(batch, flat(reference.run(model, batch))))


def flat(outputs: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """The outputs [N, H, W, C] of a batch as one array [N, elements], as a self-test holds them.

    Its dtype is that of the outputs if they share one, otherwise int32.
    """
    is_one = len({output.dtype for output in outputs}) == 1
    kind = outputs[0].dtype if is_one else np.dtype(np.int32)
    return np.concatenate([output.reshape(len(output), -1).astype(kind, copy=False) for output in outputs], axis=1)


def bands(batch: NDArray[Any]) -> NDArray[Any]:
    """One image [1, H, W, C] of a batch [N, H, W, C]: band i of N, from the top, is that band of image i."""
    height = batch.shape[1]
    borders = [height * i // len(batch) for i in range(len(batch) + 1)]
    parts = [image[top:bottom] for image, top, bottom in zip(batch, borders, borders[1:], strict=False)]
    return np.concatenate(parts)[np.newaxis]


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
