"""The JPEG container: many small JPEG files in one `.npz`, decoded in memory.

Members: `jpeg` uint8 [bytes], all files concatenated; `offsets` unsigned [N + 1], image i is
jpeg[offsets[i]:offsets[i + 1]]; `y` the labels. Decoded with Pillow if it is installed (the `train` extra), otherwise
with OpenCV. The two decoders may differ by a few grey levels, so exact figures should state which was used.
"""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgemeta.toolchain.errors import DataError, MissingExtraError

#: Largest side of an image that is accepted, pixels.
MAX_SIDE = 1024

Decoder = Callable[[bytes], NDArray[np.uint8]]


class _UndecodableError(Exception):
    """A JPEG file that is not a colour image of an accepted size; the text states the reason."""


def decode_container(path: Path, jpeg: NDArray[Any], offsets: NDArray[Any]) -> NDArray[np.uint8]:
    """Decode all images: uint8 [N, H, W, 3] RGB. path: for error texts only.

    Raises DataError for wrong dtypes, offsets that do not increase from 0 to the number of bytes, and images that
    cannot be decoded, are not RGB, larger than MAX_SIDE, or not all of one size.
    """
    bounds, decode = bounds_of(path, jpeg, offsets), _decoder()
    data = jpeg.tobytes()
    first = _decoded(path, 0, decode, data[: bounds[1]])
    out = np.empty((len(bounds) - 1, *first.shape), dtype=np.uint8)
    out[0] = first
    for i in range(1, len(out)):
        image = _decoded(path, i, decode, data[bounds[i] : bounds[i + 1]])
        if image.shape != first.shape:
            raise DataError(f"{path}: image {i} is {_size(image)} pixels, expected {_size(first)} like image 0")
        out[i] = image
    return out


def _size(image: NDArray[np.uint8]) -> str:
    return f"{image.shape[1]}x{image.shape[0]}"


def bounds_of(path: Path, jpeg: NDArray[Any], offsets: NDArray[Any]) -> NDArray[np.int64]:
    """The checked offsets, int64 [N + 1]: image i is jpeg[offsets[i] : offsets[i + 1]]. Raises DataError."""
    if jpeg.dtype != np.uint8 or jpeg.ndim != 1:
        raise DataError(f"{path}: jpeg is {jpeg.dtype} {jpeg.shape}, expected uint8 [bytes]")
    if offsets.dtype.kind not in "iu" or offsets.ndim != 1 or len(offsets) < 2:
        raise DataError(f"{path}: offsets is {offsets.dtype} {offsets.shape}, expected integers [images + 1]")
    bounds = offsets.astype(np.int64)
    if bounds[0] != 0 or bounds[-1] != len(jpeg) or not (np.diff(bounds) > 0).all():
        raise DataError(
            f"{path}: offsets run from {offsets[0]} to {offsets[-1]}"
            f"{'' if (np.diff(bounds) > 0).all() else ' and do not always increase'}, "
            f"expected increasing numbers from 0 to {len(jpeg)}"
        )
    return bounds


def _decoded(path: Path, i: int, decode: Decoder, data: bytes) -> NDArray[np.uint8]:
    try:
        return decode(data)
    except _UndecodableError as error:
        raise DataError(f"{path}: image {i} {error}, expected an RGB JPEG") from error


def _decoder() -> Decoder:
    try:
        from PIL import Image
    except ImportError:
        return _opencv_decoder()

    def decode(data: bytes) -> NDArray[np.uint8]:
        try:
            with Image.open(io.BytesIO(data), formats=("JPEG",)) as image:
                if image.mode != "RGB" or max(image.size) > MAX_SIDE:
                    raise _UndecodableError(f"is {image.mode}, {image.size[0]}x{image.size[1]} pixels")
                return np.asarray(image)
        except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
            raise _UndecodableError(f"cannot be decoded ({' '.join(str(error).split())})") from error

    return decode


def _opencv_decoder() -> Decoder:
    try:
        import cv2
    except ImportError as error:
        raise MissingExtraError(
            "decoding JPEG needs Pillow or OpenCV, found neither: pip install edgemeta[train]"
        ) from error

    def decode(data: bytes) -> NDArray[np.uint8]:
        if not data.startswith(b"\xff\xd8"):
            raise _UndecodableError(f"begins with {data[:4]!r}")
        image = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
        if image is None:
            raise _UndecodableError("cannot be decoded")
        if max(image.shape[:2]) > MAX_SIDE:
            raise _UndecodableError(f"is {image.shape[1]}x{image.shape[0]} pixels")
        return np.ascontiguousarray(image[:, :, ::-1])

    return decode
