"""Checks that every session makes before a run."""

import numpy as np

from edgemeta.model.graph import Model
from edgemeta.plugins.api import BackendError, Batch


def check_batch(backend: str, model: Model, batch: Batch) -> None:
    """Raise BackendError unless `batch` is [N, H, W, C], N >= 1, C-contiguous, of the model input's shape and dtype."""
    expected = model.input
    if (
        batch.ndim != 4
        or batch.shape[1:] != expected.shape
        or len(batch) == 0
        or batch.dtype != expected.dtype
        or not batch.flags.c_contiguous
    ):
        layout = "" if batch.flags.c_contiguous else ", not C-contiguous"
        raise BackendError(
            f"backend {backend}: the batch is {batch.dtype} {list(batch.shape)}{layout}, expected C-contiguous "
            f"{np.dtype(expected.dtype)} [N, {', '.join(map(str, expected.shape))}] with N >= 1"
        )
