"""A vector that is compared with others."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.graph import Model
from edgemeta.tasks.numbers import Float64, Output


class EmbeddingReader:
    """Vectors of length 1; built once for a model."""

    def __init__(self, model: Model) -> None:
        self._output = Output(model, model.outputs[0], model.output_types[0].shape[2])

    def vector(self, integers: NDArray[Any]) -> Float64:
        """The numbers [D] that the integers [D] of one image represent, divided by their length; zeros stay zeros.

        The cosine similarity of two vectors is their dot product.
        """
        values = self._output.values(integers, np.zeros(1, np.int64)).ravel()
        greatest = np.abs(values).max()
        if greatest == 0:
            return values
        values = values / greatest  # so that no square overflows
        vector: Float64 = values / np.sqrt(np.square(values).sum())
        return vector
