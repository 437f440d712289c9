"""A simulated network as a backend session, compared with the reference in every layer as it runs."""

from typing import Any

import numpy as np
import torch

from edgemeta.model import reference
from edgemeta.model.graph import Model
from edgemeta.plugins.api import Batch, Outputs
from edgemeta.toolchain.torch_network import IntegerNetwork


class SimulatedSession:
    """`plugins.api.Session` by `IntegerNetwork`.

    images: number of images that were run. mismatches: of those with a tensor, of any layer, that differs from the
    reference's.
    """

    def __init__(self, model: Model) -> None:
        self.images = self.mismatches = 0
        self._model = model
        self._network = IntegerNetwork(model).eval()

    def run(self, batch: Batch) -> Outputs:
        """The outputs of a batch."""
        with torch.no_grad():
            found = {name: tensor.numpy() for name, tensor in self._network.trace(torch.from_numpy(batch)).items()}
        expected = reference.trace(self._model, batch)
        differs = np.zeros(len(batch), np.bool_)
        for name, tensor in expected.items():
            differs |= (found[name] != tensor).any(axis=(1, 2, 3))
        self.images += len(batch)
        self.mismatches += int(differs.sum())
        outputs: list[Any] = [found[name].astype(expected[name].dtype) for name in self._model.outputs]
        return tuple(outputs)

    def close(self) -> None:
        """Nothing to free."""
