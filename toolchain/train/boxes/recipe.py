"""The recipe of a detector of own pictures."""

import hashlib
import json
from dataclasses import asdict, dataclass, field

from edgemeta.toolchain.train.boxes.network import STRIDES, GridDesign, Size
from edgemeta.toolchain.train.boxes.views import BoxViewSettings


@dataclass(frozen=True)
class BoxRecipe:
    """Training by labels, and by a teacher where there is one.

    epochs: passes over all pictures; the last `plain` share of them has no mosaics. lr: peak learning rate of AdamW,
    reached linearly after `warmup_epochs`, then cosine to zero. ema: decay per step of the moving average of the
    weights, which is measured and exported. taught, hinted: weights of the losses of the teacher's answers and features
    beside that of the labels. small: share of the epochs, the first ones, whose views have `small_size` of the size:
    half of the time, and what is learned there holds at full size after few epochs.
    quantized_epochs: at the end, with weights and activations rounded to 8 bits and `quantized_lr`. margin: pictures
    are kept in memory at this factor of the network's size. validation: share of the pictures that is held out to
    choose the best epoch. least_views: in an epoch; fewer pictures are seen several times.
    """

    epochs: int = 150
    batch: int = 16
    lr: float = 1.5e-3
    warmup_epochs: float = 3.0
    weight_decay: float = 0.02
    ema: float | None = 0.9995
    taught: float = 1.0
    hinted: float = 1.0
    small: float = 0.6
    small_size: float = 0.7
    plain: float = 0.15
    quantized_epochs: int = 5
    quantized_lr: float = 1e-4
    margin: float = 1.25
    evaluate_every: int = 5
    seed: int = 1
    validation: float = 0.15
    least_views: int = 512
    views: BoxViewSettings = field(default_factory=BoxViewSettings)

    def size(self, whole: Size, epoch: int) -> Size:
        """Of the views of an epoch, from 0, of a network whose input is `whole`."""
        if epoch >= self.small * self.epochs:
            return whole
        stride = STRIDES[-1]
        height, width = (max(stride, round(self.small_size * side / stride) * stride) for side in whole)
        return height, width

    def digest(self, design: GridDesign, start: str | None, teacher: str | None) -> str:
        """SHA-256 (hex) of all but the data that decides the steps in float; start, teacher: digests of files."""
        whole = {**asdict(self), "network": asdict(design), "start": start, "teacher": teacher}
        for name in ("quantized_epochs", "quantized_lr"):
            del whole[name]
        return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()
