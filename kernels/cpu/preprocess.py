"""Preprocessing in the C++ library: crop, exact area resize, colour, fill and table lookup in one call."""

from ctypes import byref, c_void_p
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgemeta.kernels.cpu.library import (
    ISA_NAMES,
    AxisStruct,
    LibraryError,
    ResizeStruct,
    error_buffer,
    error_text,
    library,
)
from edgemeta.model.graph import Preprocessing, channels_of
from edgemeta.model.layers import TensorType
from edgemeta.model.preprocess import Span, content_rectangle, coverage, crop_rectangle

COLOURS = "bgrya"
"""Letters of a `colour` by their number in the library."""


class Resizer:
    """Preprocesses frames of one shape, [H, W, 3] in B, G, R order or gray [H, W], as `model.preprocess.preprocess`.

    Holds memory of the library until it is garbage-collected. Used by one thread at a time. Raises LibraryError if the
    library is missing, the machine does not support the instruction set, or memory runs out.
    """

    def __init__(
        self, frame_shape: tuple[int, ...], target: TensorType, preprocessing: Preprocessing, isa: str = "auto"
    ) -> None:
        self._library = library()
        self._handle: int | None = None
        height, width, channels = target.shape
        size = frame_shape[0], frame_shape[1]
        region = crop_rectangle(size, (height, width), preprocessing.crop)
        content = content_rectangle(size, (height, width), preprocessing)
        rows, _row_arrays = _axis(coverage(region.height, content.height))
        columns, _column_arrays = _axis(coverage(region.width, content.width))
        colours = np.array([COLOURS.index(letter) for letter in channels_of(preprocessing.colour)], np.int32)
        table = np.ascontiguousarray(np.broadcast_to(preprocessing.table, (channels, 256))).view(np.uint8)
        fill = table[np.arange(channels), np.array(preprocessing.fill, np.uint8)]
        struct = ResizeStruct(
            rows,
            columns,
            frame_shape[2] if len(frame_shape) == 3 else 1,
            region.top,
            region.left,
            *(height, width, channels),
            content.top,
            content.left,
            *(c_void_p(array.ctypes.data) for array in (colours, table, fill)),
        )
        error = error_buffer()
        self._handle = self._library.em_resizer_open(ISA_NAMES.index(isa), byref(struct), error)
        if self._handle is None:
            raise LibraryError(error_text(error))

    def run(self, frame: NDArray[np.uint8], tensor: NDArray[Any]) -> None:
        """Preprocess a frame into a C-contiguous tensor; rows may be strided, the pixels of a row contiguous."""
        self._library.em_resizer_run(self._handle, frame.ctypes.data, frame.strides[0], tensor.ctypes.data)

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None:
            self._library.em_resizer_close(self._handle)


def _axis(spans: tuple[Span, ...]) -> tuple[AxisStruct, list[NDArray[np.int32]]]:
    """The struct and the arrays that it points to, which must stay alive during the call."""
    starts = np.array([span.start for span in spans], np.int32)
    counts = np.array([len(span.weights) for span in spans], np.int32)
    weights = np.concatenate([span.weights for span in spans]).astype(np.int32)
    addresses = [c_void_p(array.ctypes.data) for array in (starts, counts, weights)]
    return AxisStruct(len(spans), *addresses, int(spans[0].weights.sum())), [starts, counts, weights]
