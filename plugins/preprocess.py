"""Preprocesses camera frames with the fused C++ routine, equal bit for bit to `model.preprocess`."""

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from edgemeta.kernels.cpu.library import LibraryError
from edgemeta.kernels.cpu.preprocess import Resizer
from edgemeta.model.errors import FrameError
from edgemeta.model.preprocess import ImageInput, Rectangle, preprocess
from edgemeta.plugins.api import Batch

Preprocessor: TypeAlias = Callable[[NDArray[np.uint8]], Batch]
"""Makes the input [N, H, W, C] of a frame. The preprocessor owns the array; it is valid until the next call."""


_log = logging.getLogger(__name__)


def make_preprocessor(
    model: ImageInput, frame_shape: tuple[int, ...], regions: Sequence[Rectangle] | None = None
) -> Preprocessor:
    """Make a preprocessor for frames of one shape: uint8 [H, W, 3] in B, G, R order, or gray [H, W].

    regions: parts of the frame, each of which becomes one image of the input, as a frame of its own; None: the whole
    frame, one image. Rows may be strided. Raises FrameError for an invalid shape or a region that is not inside, and
    when called for a frame of another shape or dtype. Without the C++ library it uses the reference, which is many
    times slower, and logs a warning, once.
    """
    parts = checked_regions(frame_shape, regions)
    shape = (len(parts), *model.input.shape)
    batch: Batch = np.zeros(shape, np.int8) if model.input.signed else np.zeros(shape, np.uint8)
    run = _make_run(model, {(part.height, part.width, *frame_shape[2:]) for part in parts})

    def prepare(frame: NDArray[np.uint8]) -> Batch:
        _check(frame, frame_shape)
        packed = _with_packed_rows(frame)
        for part, tensor in zip(parts, batch, strict=True):
            run(packed[part.top : part.top + part.height, part.left : part.left + part.width], tensor)
        return batch

    return prepare


def checked_regions(frame_shape: tuple[int, ...], regions: Sequence[Rectangle] | None) -> list[Rectangle]:
    """The regions, by default the whole frame. Raises FrameError as `make_preprocessor`."""
    if len(frame_shape) not in (2, 3) or frame_shape[2:] not in ((), (3,)) or min(frame_shape) < 1:
        raise FrameError(f"a frame has shape {list(frame_shape)}, expected [H, W, 3] or [H, W] of at least one pixel")
    parts = [Rectangle(0, 0, frame_shape[0], frame_shape[1])] if regions is None else list(regions)
    for part in parts:
        _check_inside(part, frame_shape)
    return parts


def _make_run(
    model: ImageInput, shapes: Iterable[tuple[int, ...]]
) -> Callable[[NDArray[np.uint8], NDArray[Any]], None]:
    """What preprocesses frames of these shapes into a tensor [H, W, C]."""
    try:
        resizers = {shape: Resizer(shape, model.input, model.preprocessing) for shape in shapes}
    except LibraryError as error:
        _warn_of(str(error))
        return lambda frame, tensor: np.copyto(tensor, preprocess(frame, model.input, model.preprocessing))
    return lambda frame, tensor: resizers[frame.shape].run(frame, tensor)


@cache
def _warn_of(reason: str) -> None:
    """Once for each reason: frames of many shapes have a preprocessor each."""
    _log.warning("frames are preprocessed by the slow NumPy reference: %s", reason)


def _check_inside(part: Rectangle, frame_shape: tuple[int, ...]) -> None:
    inside = 0 <= part.top < part.top + part.height <= frame_shape[0]
    if not (inside and 0 <= part.left < part.left + part.width <= frame_shape[1]):
        raise FrameError(
            f"a region has {part.height} x {part.width} pixels from row {part.top} and column {part.left} on, expected "
            f"one inside the frame of shape {list(frame_shape)}"
        )


def _check(frame: NDArray[np.uint8], frame_shape: tuple[int, ...]) -> None:
    if frame.shape != frame_shape or frame.dtype != np.uint8:
        raise FrameError(f"a frame is {frame.dtype} {list(frame.shape)}, expected uint8 {list(frame_shape)}")


def _with_packed_rows(frame: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The frame itself if the pixels of a row are contiguous, otherwise a copy."""
    channels = frame.shape[2] if frame.ndim == 3 else 1
    packed = frame.strides[1] == channels and (frame.ndim == 2 or frame.strides[2] == 1)
    return frame if packed else np.ascontiguousarray(frame)
