"""What the shipped backbone is and how it was trained."""

import hashlib
import json
from dataclasses import asdict, dataclass

CLASSES = 10
"""Of CIFAR-10, the only labels used."""
HELD_OUT = 2000
"""Training images of CIFAR-10, the last ones, that are only measured."""


@dataclass(frozen=True)
class Imitation:
    """One map of the teacher that one stage of the backbone imitates.

    map: name of a tensor of the teacher, of `channels` channels. stage: of the backbone, from 1; a 1x1 convolution
    on it makes the map, on a grid of `rows` rows. weight: in the loss.
    """

    map: str
    channels: int
    stage: int
    rows: int
    weight: float


IMITATIONS = (
    Imitation("input.175", 64, stage=2, rows=12, weight=1.0),
    Imitation("input.175", 64, stage=3, rows=12, weight=1.0),
    Imitation("input.283", 128, stage=3, rows=6, weight=1.0),
    Imitation("input.359", 256, stage=3, rows=3, weight=0.25),
)
"""Of YOLOX-nano: the ends of its stages at an eighth, a sixteenth and a thirty-second of the image's side."""


@dataclass(frozen=True)
class BackboneRecipe:
    """The network, its views and their weights in the loss.

    start: shipped float model whose weights the first block of each stage begins with. blocks: residual blocks of the
    stages. frozen: stages, from the first, that keep the start's weights. view: side of the views, pixels, as the
    teacher sees them; size: of those that the backbone sees, made from the former. half: views in half a batch, for
    which batch norms take their statistics; of them `labelled` are single CIFAR-10 images, `mosaics` are parts of nine
    of these, the rest are parts of photographs. steps: of an epoch. lr: learning rate, reached after `warmup` steps and
    kept until the last share `decay` of all steps, in which it falls to zero. label_weight: in the loss. average: decay
    per step of the moving average of the weights.
    """

    name: str = "backbone64"
    seed: int = 7
    start: str = "resnet8-cifar10-float"
    blocks: tuple[int, ...] = (1, 2, 2)
    frozen: int = 1
    view: int = 96
    size: int = 48
    half: int = 64
    labelled: int = 24
    mosaics: int = 8
    steps: int = 50
    epochs: int = 50
    lr: float = 0.0015
    warmup: int = 60
    decay: float = 0.3
    weight_decay: float = 0.02
    label_weight: float = 0.3
    label_smoothing: float = 0.1
    average: float = 0.999
    imitations: tuple[Imitation, ...] = IMITATIONS

    def rate(self, step: int) -> float:
        """Learning rate of a step, counted from 0 over all epochs."""
        total = self.steps * self.epochs
        return self.lr * min(1.0, (step + 1) / self.warmup, (total - step) / (self.decay * total))

    def digest(self) -> str:
        """SHA-256 (hex) of all but the number of epochs: a run can be continued for longer before its rate falls."""
        entries = asdict(self)
        del entries["epochs"]
        return hashlib.sha256(json.dumps(entries, sort_keys=True).encode()).hexdigest()
