"""Preprocessing in the C++ library: crop, exact area resize, colour conversion and table lookup in one call."""

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
from edgemeta.model.graph import Preprocessing
from edgemeta.model.layers import TensorType
from edgemeta.model.preprocess import Span, coverage, crop_rectangle


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
        if preprocessing.crop == "letterbox" or preprocessing.colour not in ("rgb", "bgr", "gray"):
            raise LibraryError(
                f"crop {preprocessing.crop!r} with colour {preprocessing.colour!r} is not in the library"
            )
        height, width, channels = target.shape
        region = crop_rectangle((frame_shape[0], frame_shape[1]), (height, width), preprocessing.crop)
        rows, _row_arrays = _axis(coverage(region.height, height))
        columns, _column_arrays = _axis(coverage(region.width, width))
        table = np.ascontiguousarray(np.broadcast_to(preprocessing.table, (channels, 256))).view(np.uint8)
        frame_channels = frame_shape[2] if len(frame_shape) == 3 else 1
        struct = ResizeStruct(
            rows,
            columns,
            frame_channels,
            region.top,
            region.left,
            channels,
            preprocessing.colour == "rgb",
            c_void_p(table.ctypes.data),
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
