"""The recipe of a detector of own pictures."""

import hashlib
import json
from dataclasses import asdict, dataclass, field

from edgemeta.toolchain.train.boxes.network import GridDesign
from edgemeta.toolchain.train.boxes.views import BoxViewSettings


@dataclass(frozen=True)
class BoxRecipe:
    """Training by labels, and by a teacher where there is one.

    epochs: passes over all pictures; the last `plain` share of them has no mosaics. lr: peak learning rate of AdamW,
    reached linearly after `warmup_epochs`, then cosine to zero. ema: decay per step of the moving average of the
    weights, which is measured and exported. taught: weight of the teacher's loss beside that of the labels.
    quantized_epochs: at the end, with weights and activations rounded to 8 bits and `quantized_lr`. margin: pictures
    are kept in memory at this factor of the network's size. validation: share of the pictures that is held out to
    choose the best epoch. least_views: in an epoch; fewer pictures are seen several times.
    """

    epochs: int = 150
    batch: int = 32
    lr: float = 2e-3
    warmup_epochs: float = 3.0
    weight_decay: float = 0.02
    ema: float | None = 0.9995
    taught: float = 1.0
    plain: float = 0.15
    quantized_epochs: int = 10
    quantized_lr: float = 1e-4
    margin: float = 1.25
    evaluate_every: int = 5
    seed: int = 1
    validation: float = 0.15
    least_views: int = 512
    views: BoxViewSettings = field(default_factory=BoxViewSettings)

    def digest(self, design: GridDesign, start: str | None, teacher: str | None) -> str:
        """SHA-256 (hex) of everything but the data that decides a run's steps; start, teacher: digests of files."""
        whole = {**asdict(self), "network": asdict(design), "start": start, "teacher": teacher}
        return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()
