"""Random views of pictures for small data sets: crop and scale, mirror, colours; and blends of two pictures.

All random numbers come from a NumPy generator of the epoch: the same generator gives the same views.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional


@dataclass(frozen=True)
class ViewSettings:
    """Ranges of the random views; every value is drawn uniformly.

    least_area: smallest share of the picture's area that a crop has. aspect: greatest ratio of its sides. turn:
    greatest angle, degrees. brightness: greatest shift, as a share of white. contrast, saturation: greatest change of
    the factor.
    """

    least_area: float = 0.4
    aspect: float = 1.25
    turn: float = 10.0
    brightness: float = 0.15
    contrast: float = 0.3
    saturation: float = 0.3


def random_views(pixels: NDArray[np.uint8], size: int, settings: ViewSettings, rng: np.random.Generator) -> Tensor:
    """One view of each picture, as network input: float32 [B, 3, size, size], (value - 128) / 128 within -1..1.

    pixels: uint8 [B, H, H, 3]. A crop never leaves the picture, but for the corners of a turned one, where the picture
    is continued by reflection.
    """
    x = torch.from_numpy(np.ascontiguousarray(pixels)).permute(0, 3, 1, 2)
    x = x.to(torch.float32, memory_format=torch.channels_last).sub_(128.0).div_(128.0)
    grid = functional.affine_grid(_crops(len(x), settings, rng), [len(x), 3, size, size], align_corners=False)
    x = functional.grid_sample(x, grid, padding_mode="reflection", align_corners=False)
    return _coloured(x, settings, rng).contiguous(memory_format=torch.channels_last)


def blend(x: Tensor, target: Tensor, strength: float, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
    """Blend every picture with another one of the batch, and their targets in the same shares.

    x: float [B, 3, H, W]. target: float [B, classes]. Half of the batches are mixed pixel by pixel (Zhang et al. 2018,
    "mixup"), in the others a rectangle is replaced (Yun et al. 2019, "CutMix"); shares are from Beta(strength,
    strength).
    """
    other = torch.from_numpy(rng.permutation(len(x)))
    share = float(rng.beta(strength, strength))
    if rng.random() < 0.5:
        return torch.lerp(x[other], x, share), torch.lerp(target[other], target, share)
    height, width = x.shape[2:]
    rows, columns = (round(side * (1.0 - share) ** 0.5) for side in (height, width))
    top, left = int(rng.integers(0, height - rows + 1)), int(rng.integers(0, width - columns + 1))
    x[:, :, top : top + rows, left : left + columns] = x[other, :, top : top + rows, left : left + columns]
    return x, torch.lerp(target[other], target, 1.0 - rows * columns / (height * width))


def _crops(count: int, settings: ViewSettings, rng: np.random.Generator) -> Tensor:
    """Affine maps [B, 2, 3] from the view's coordinates to the picture's, both -1..1."""
    area = rng.uniform(settings.least_area, 1.0, count)
    ratio = np.exp(rng.uniform(-1.0, 1.0, count) * np.log(settings.aspect))
    half = np.minimum(np.sqrt(np.stack([area * ratio, area / ratio])), 1.0)  # half the width, half the height
    centre = rng.uniform(-1.0, 1.0, (2, count)) * (1.0 - half)
    mirrored = np.where(rng.random(count) < 0.5, -1.0, 1.0)
    angle = np.deg2rad(rng.uniform(-settings.turn, settings.turn, count))
    across = np.stack([half[0] * mirrored * np.cos(angle), -half[1] * np.sin(angle), centre[0]], axis=1)
    down = np.stack([half[0] * mirrored * np.sin(angle), half[1] * np.cos(angle), centre[1]], axis=1)
    return torch.from_numpy(np.stack([across, down], axis=1).astype(np.float32))


def _coloured(x: Tensor, settings: ViewSettings, rng: np.random.Generator) -> Tensor:
    def column(greatest: float, middle: float) -> Tensor:
        values = rng.uniform(middle - greatest, middle + greatest, len(x)).astype(np.float32)
        return torch.from_numpy(values)[:, None, None, None]

    gray = x.mean(1, keepdim=True)
    x = torch.lerp(gray, x, column(settings.saturation, 1.0))
    mean = x.mean((1, 2, 3), keepdim=True)
    x = torch.lerp(mean, x, column(settings.contrast, 1.0))
    return x.add_(column(2.0 * settings.brightness, 0.0)).clamp_(-1.0, 1.0)
