"""The reference interpreter: every layer in NumPy, every integer exact. Backends equal it bit for bit.

Tensors are [N, H, W, C]. What each layer computes says its record (`layers`).
"""

from collections.abc import Iterator

import numpy as np

from edgemeta.model.graph import INPUT, Model
from edgemeta.model.layers.products import BLOCK_ELEMENTS
from edgemeta.model.layers.types import Tensor


def run(model: Model, batch: Tensor) -> tuple[Tensor, ...]:
    """The outputs, each [N, H, W, C] of its type, of a batch [N, H, W, C] of the model input's dtype.

    Raises ValueError if the batch has another shape or dtype. The model must have been proved (`prove.prove`).
    """
    chunks = [[tensors[name] for name in model.outputs] for tensors in _traces(model, batch)]
    return tuple(np.concatenate(parts) for parts in zip(*chunks, strict=True))


def trace(model: Model, batch: Tensor) -> dict[str, Tensor]:
    """All tensors of the network by name, including "input", each [N, H, W, C]. Raises as `run`."""
    chunks = list(_traces(model, batch))
    return {name: np.concatenate([chunk[name] for chunk in chunks]) for name in chunks[0]}


def _traces(model: Model, batch: Tensor) -> Iterator[dict[str, Tensor]]:
    """All tensors, for a few images at a time, so that memory does not grow with the batch."""
    expected = model.input
    if batch.dtype != expected.dtype or batch.shape[1:] != expected.shape or len(batch) == 0:
        raise ValueError(
            f"batch is {batch.dtype} {list(batch.shape)}, expected {np.dtype(expected.dtype)} "
            f"[N, {', '.join(map(str, expected.shape))}] with N >= 1"
        )
    types = model.types
    largest = max(int(np.prod(tensor_type.shape)) for tensor_type in types.values())
    images = max(1, BLOCK_ELEMENTS // largest)
    for start in range(0, len(batch), images):
        tensors = {INPUT: batch[start : start + images]}
        for layer in model.layers:
            names = layer.sources
            tensors[layer.name] = layer.integers([tensors[name] for name in names], [types[name] for name in names])
        yield tensors
