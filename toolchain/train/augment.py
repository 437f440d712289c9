"""Deterministic augmented views of a training set (flip, shifted crop, choice of source pixels).

A view is a set of per-image parameters drawn from a generator seeded with (seed, stream, number): the same three
integers give the same pixels on every machine, so a teacher's logits for a view can be cached and a resumed run
continues exactly. NumPy only.
"""

from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

#: Streams of random numbers; each purpose has its own, so that their values are independent.
STREAM_TEACHER, STREAM_VIEWS, STREAM_ORDER, STREAM_STUDENT, STREAM_PICTURES, STREAM_BLEND = 1, 2, 3, 4, 5, 6
STREAM_FREEZE, STREAM_RELEASE, STREAM_MOSAIC = 7, 8, 9


def generator(seed: int, stream: int, number: int) -> np.random.Generator:
    """The random generator for one purpose: PCG64 seeded with the three integers."""
    return np.random.Generator(np.random.PCG64([seed, stream, number]))


@dataclass(frozen=True)
class View:
    """Per-image parameters of one augmented view; every array has one entry per image.

    flip: bool, mirror left-right. dy, dx: int64 in 0..2*pad, top-left corner of the crop in the padded image.
    alternate: bool, use the alternative pixels of the image if there are any.
    """

    flip: NDArray[np.bool_]
    dy: NDArray[np.int64]
    dx: NDArray[np.int64]
    alternate: NDArray[np.bool_]


def draw_view(seed: int, stream: int, number: int, images: int, pad: int, alternate_share: float) -> View:
    """Draw the parameters of one view for `images` images.

    pad: pixels of reflected border on each side (0: no shift). alternate_share: probability, per image, of using its
    alternative pixels.
    """
    rng = generator(seed, stream, number)
    return View(
        flip=rng.random(images) < 0.5,
        dy=rng.integers(0, 2 * pad + 1, images),
        dx=rng.integers(0, 2 * pad + 1, images),
        alternate=rng.random(images) < alternate_share,
    )


class ImageBank:
    """Training images, padded once by reflection, from which views are cropped.

    x: uint8 [N, H, W, 3]. alternates: uint8 [M, H, W, 3], alternative pixels (for example a lossless copy) of the
    images `alternate_index` (int [M], unique, 0..N-1); both are optional.
    """

    def __init__(
        self,
        x: NDArray[np.uint8],
        pad: int,
        alternates: NDArray[np.uint8] | None = None,
        alternate_index: NDArray[np.integer] | None = None,
    ) -> None:
        border = ((0, 0), (pad, pad), (pad, pad), (0, 0))
        self.images, self.height, self.width = x.shape[0], x.shape[1], x.shape[2]
        self.pad = pad
        self._alternate_row = np.arange(self.images)
        if alternates is not None and alternate_index is not None:
            self._alternate_row[alternate_index] = self.images + np.arange(len(alternates))
            x = np.concatenate([x, alternates])
        padded = np.pad(x, border, mode="reflect") if pad else x
        # [rows, 2*pad+1, 2*pad+1, 3, H, W], a view on the padded pixels: no copy
        self._windows = sliding_window_view(padded, (self.height, self.width), axis=(1, 2))

    def cut(self, view: View, index: NDArray[np.integer]) -> NDArray[np.uint8]:
        """The pixels of images `index` (int [B]) in one view: uint8 [B, 3, H, W] (channels first)."""
        rows = np.where(view.alternate[index], self._alternate_row[index], index)
        batch = np.ascontiguousarray(self._windows[rows, view.dy[index], view.dx[index]])
        flip = view.flip[index]
        batch[flip] = batch[flip][..., ::-1]
        return batch
