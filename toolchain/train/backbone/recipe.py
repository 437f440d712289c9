"""What the shipped backbone is and how it was trained."""

import hashlib
import json
from dataclasses import asdict, dataclass

CLASSES = 10
"""Of CIFAR-10, the only labels used."""
HELD_OUT = 2000
"""Training images of CIFAR-10, the last ones, that are only measured."""


@dataclass(frozen=True)
class Guide:
    """Which maps of the guide, an ONNX file, are imitated.

    maps: names of its tensors. grids: rows of each map that the backbone imitates; channels: of each. stages: the stage
    of the backbone, from 1, that imitates it.
    """

    maps: tuple[str, ...] = ("input.175", "input.283", "input.359")
    grids: tuple[int, ...] = (12, 6, 3)
    channels: tuple[int, ...] = (64, 128, 256)
    stages: tuple[int, ...] = (2, 3, 3)


@dataclass(frozen=True)
class BackboneRecipe:
    """The network, its views and their weights in the loss.

    size: side of the input, pixels. depth, width: of the residual network (`Design`). half: views in half a batch, for
    which batch norms take their statistics; of them `labelled` are single CIFAR-10 images, `mosaics` are parts of nine
    of these, the rest are parts of photographs. steps: of an epoch. lr: learning rate, reached after `warmup` steps and
    kept until the last share `decay` of all steps, in which it falls to zero. label_weight, map_weights: of the parts
    of the loss. average: decay per step of the moving average of the weights.
    """

    name: str = "backbone96"
    seed: int = 7
    size: int = 96
    depth: int = 14
    width: float = 2.0
    half: int = 64
    labelled: int = 24
    mosaics: int = 8
    steps: int = 100
    epochs: int = 60
    lr: float = 0.0025
    warmup: int = 150
    decay: float = 0.3
    weight_decay: float = 0.05
    label_weight: float = 0.5
    label_smoothing: float = 0.1
    map_weights: tuple[float, ...] = (1.0, 1.0, 0.5)
    average: float = 0.999
    guide: Guide = Guide()

    def rate(self, step: int) -> float:
        """Learning rate of a step, counted from 0 over all epochs."""
        total = self.steps * self.epochs
        return self.lr * min(1.0, (step + 1) / self.warmup, (total - step) / (self.decay * total))

    def digest(self) -> str:
        """SHA-256 (hex) of all but the number of epochs: a run can be continued for longer before its rate falls."""
        entries = asdict(self)
        del entries["epochs"]
        return hashlib.sha256(json.dumps(entries, sort_keys=True).encode()).hexdigest()
