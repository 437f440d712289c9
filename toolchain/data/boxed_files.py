"""Opens pictures with boxes, in whatever form people have them, and pictures without."""

from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.errors import FrameError
from edgemeta.plugins.pictures import read_checked_picture
from edgemeta.toolchain.data.box_archive import load_box_archive
from edgemeta.toolchain.data.boxed_pictures import BoxedPicture, BoxedPictures, Pixels
from edgemeta.toolchain.data.frames import pictures_in
from edgemeta.toolchain.errors import DataError


def open_boxed_pictures(path: Path) -> BoxedPictures:
    """Read the boxes of a data set; pixels are read later. Raises DataError."""
    return load_box_archive(path)


def open_unlabelled(folder: Path, labels: tuple[str, ...]) -> BoxedPictures:
    """The pictures in a folder and its sub-folders, in which no label was annotated. Raises DataError."""
    found = pictures_in(folder)
    if not found:
        raise DataError(f"{folder}: has no pictures, expected some")
    none = np.empty(0, np.int64)
    return BoxedPictures(
        labels,
        tuple(
            BoxedPicture(
                name=str(path.relative_to(folder)),
                read=partial(read_picture, path),
                boxes=np.empty((0, 4), np.float32),
                classes=none,
                difficult=none.astype(np.bool_),
                known=np.zeros(len(labels), np.bool_),
                source=path.parent.name if path.parent != folder else folder.name,
            )
            for path in found
        ),
    )


def read_picture(path: Path) -> Pixels:
    """Pixels uint8 [H, W, 3], R, G, B, of a picture file, upright. Raises DataError."""
    try:
        pixels, _ = read_checked_picture(path)
    except FrameError as error:
        raise DataError(str(error)) from error
    result: NDArray[np.uint8] = np.ascontiguousarray(pixels[..., ::-1])
    return result
