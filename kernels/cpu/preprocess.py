"""Preprocessing in the C++ library: crop, exact area resize, colour, fill and table lookup in one call."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgemeta.kernels.cpu.library import ISA_NAMES, LibraryError, error_buffer, error_text, library
from edgemeta.kernels.lowering.plan_bytes import Fields, packed
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
        colours = np.array([COLOURS.index(letter) for letter in channels_of(preprocessing.colour)])
        table = np.ascontiguousarray(np.broadcast_to(preprocessing.table, (channels, 256))).view(np.uint8)
        fill = table[np.arange(channels), np.array(preprocessing.fill, np.uint8)]
        axes = (coverage(region.height, content.height), coverage(region.width, content.width))
        frame_channels = frame_shape[2] if len(frame_shape) == 3 else 1
        crop = (region.top, region.left, region.height, region.width)
        numbers = (frame_channels, *crop, *target.shape, content.top, content.left)
        resize = packed((*numbers, *_axis(axes[0]), *_axis(axes[1]), colours, table, fill))
        error = error_buffer()
        self._handle = self._library.em_resizer_open(ISA_NAMES.index(isa), resize, len(resize), error)
        if self._handle is None:
            raise LibraryError(error_text(error))

    def run(self, frame: NDArray[np.uint8], tensor: NDArray[Any]) -> None:
        """Preprocess a frame into a C-contiguous tensor [1, H, W, C]; the pixels of the frame's rows are contiguous."""
        self._library.em_resizer_run(self._handle, _address(frame), frame.strides[0], _address(tensor))

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None:
            self._library.em_resizer_close(self._handle)


def _address(array: NDArray[Any]) -> int:
    """Where its first element is; `array.ctypes` would make two objects for that."""
    address: int = array.__array_interface__["data"][0]
    return address


def _axis(spans: tuple[Span, ...]) -> Fields:
    """The sum of each pixel's weights, and for all pixels: starts, numbers of weights, the weights."""
    starts = np.array([span.start for span in spans])
    counts = np.array([len(span.weights) for span in spans])
    return int(spans[0].weights.sum()), starts, counts, np.concatenate([span.weights for span in spans])
