"""Preprocesses camera frames with the fused C++ routine, equal bit for bit to `model.preprocess`."""

import logging
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from edgemeta.kernels.cpu.library import LibraryError
from edgemeta.kernels.cpu.preprocess import Resizer
from edgemeta.model.errors import FrameError
from edgemeta.model.graph import Model
from edgemeta.model.preprocess import preprocess
from edgemeta.plugins.api import Batch

Preprocessor: TypeAlias = Callable[[NDArray[np.uint8]], Batch]
"""Makes the input [1, H, W, C] of a frame. The preprocessor owns the array; it is valid until the next call."""

_log = logging.getLogger(__name__)


def make_preprocessor(model: Model, frame_shape: tuple[int, ...]) -> Preprocessor:
    """Make a preprocessor for frames of one shape: uint8 [H, W, 3] in B, G, R order, or gray [H, W].

    Rows may be strided. Raises FrameError for an invalid shape, and when called for a frame of another shape or dtype.
    Without the C++ library it uses the reference, which is many times slower, and logs a warning.
    """
    if len(frame_shape) not in (2, 3) or frame_shape[2:] not in ((), (3,)) or min(frame_shape) < 1:
        raise FrameError(f"a frame has shape {list(frame_shape)}, expected [H, W, 3] or [H, W] of at least one pixel")
    shape = (1, *model.input.shape)
    tensor: Batch = np.zeros(shape, np.int8) if model.input.signed else np.zeros(shape, np.uint8)
    try:
        resizer = Resizer(frame_shape, model.input, model.preprocessing)
    except LibraryError as error:
        _log.warning("frames are preprocessed by the slow NumPy reference: %s", error)
        return _slow_preprocessor(model, frame_shape, tensor)

    def prepare(frame: NDArray[np.uint8]) -> Batch:
        _check(frame, frame_shape)
        resizer.run(_with_packed_rows(frame), tensor)
        return tensor

    return prepare


def _slow_preprocessor(model: Model, frame_shape: tuple[int, ...], tensor: Batch) -> Preprocessor:
    def prepare(frame: NDArray[np.uint8]) -> Batch:
        _check(frame, frame_shape)
        tensor[0] = preprocess(frame, model.input, model.preprocessing)
        return tensor

    return prepare


def _check(frame: NDArray[np.uint8], frame_shape: tuple[int, ...]) -> None:
    if frame.shape != frame_shape or frame.dtype != np.uint8:
        raise FrameError(f"a frame is {frame.dtype} {list(frame.shape)}, expected uint8 {list(frame_shape)}")


def _with_packed_rows(frame: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The frame itself if the pixels of a row are contiguous, otherwise a copy."""
    channels = frame.shape[2] if frame.ndim == 3 else 1
    packed = frame.strides[1] == channels and (frame.ndim == 2 or frame.strides[2] == 1)
    return frame if packed else np.ascontiguousarray(frame)
