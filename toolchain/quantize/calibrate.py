"""Statistics of tensors over the calibration images: samples of values, and clip ranges chosen from them."""

from collections.abc import Iterable
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from edgemeta.toolchain.errors import QuantizeError
from edgemeta.toolchain.float_model.forward import all_tensors, network_input
from edgemeta.toolchain.float_model.graph import Float32, FloatModel

#: Rule for the clip range of a tensor: greatest magnitude, 99.99th percentile, or least mean square error.
ClipRule = Literal["minmax", "percentile", "mse"]
CLIP_RULES: tuple[ClipRule, ...] = ("minmax", "percentile", "mse")

_SAMPLE = 1 << 18
_FRACTIONS = np.linspace(0.30, 1.0, 71)


class Statistics:
    """Sampled values of float tensors over the calibration images.

    sample: name -> float32 [<= about 2**18], evenly spaced in each batch; greatest: name -> greatest magnitude of all
    values; least: name -> least of all values.
    """

    def __init__(self, model: FloatModel, pixels: NDArray[np.uint8], names: Iterable[str], batch: int = 100) -> None:
        wanted = set(names)
        parts: dict[str, list[Float32]] = {name: [] for name in wanted}
        self.greatest = dict.fromkeys(wanted, 0.0)
        self.least = dict.fromkeys(wanted, np.inf)
        batches = -(-len(pixels) // batch)
        for start in range(0, len(pixels), batch):
            tensors = all_tensors(model, network_input(model, pixels[start : start + batch]))
            for name in wanted:
                values = tensors[name].reshape(-1)
                self.greatest[name] = max(self.greatest[name], float(np.abs(values).max()))
                self.least[name] = min(self.least[name], float(values.min()))
                step = max(1, len(values) * batches // _SAMPLE)
                parts[name].append(values[:: step | 1].copy())  # an odd step visits all channels
        self.sample = {name: np.concatenate(p) for name, p in parts.items()}
        for name, value in self.greatest.items():
            if not np.isfinite(value):
                raise QuantizeError(f"{model.name}: tensor {name!r} becomes infinite on the calibration images")

    def clip(self, name: str, rule: ClipRule, signed: bool, bits: int = 8) -> float:
        """Greatest magnitude that the quantization of a tensor covers; positive.

        "mse" tries 71 fractions of the greatest magnitude and selects that with the least rounding and clipping error.
        """
        greatest = self.greatest[name]
        if greatest == 0.0:
            return 1.0
        if rule == "minmax":
            return greatest
        values = self.sample[name]
        if rule == "percentile":
            return max(float(np.percentile(np.abs(values), 99.99)), greatest * 1e-3)
        levels = (1 << (bits - 1)) - 1 if signed else (1 << bits) - 1
        lowest = -levels - 1 if signed else 0
        errors = [_error(values, greatest * f / levels, lowest, levels) for f in _FRACTIONS]
        return float(greatest * _FRACTIONS[int(np.argmin(errors))])


def _error(values: Float32, scale: float, lowest: int, highest: int) -> float:
    steps = np.float32(scale)
    back = np.clip(np.floor(values / steps + np.float32(0.5)), lowest, highest) * steps
    return float(np.square(values - back).mean(dtype=np.float64))
