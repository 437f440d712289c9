"""Finds the pictures that an annotation names, and makes a record of what it says of one."""

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path, PurePosixPath

import numpy as np

from edgemeta.model.errors import FrameError
from edgemeta.model.small_file import why
from edgemeta.plugins.pictures import read_checked_picture
from edgemeta.toolchain.data.boxes.pictures import BoxedPicture, Pixels, require_boxes
from edgemeta.toolchain.data.frames import pictures_in
from edgemeta.toolchain.errors import DataError

Box = tuple[str, Sequence[float], bool]
"""Label, x0, y0, x1, y1, and whether it is difficult."""


class FoundPictures:
    """The picture files in a folder and its sub-folders; nothing outside of it is ever read."""

    def __init__(self, root: Path) -> None:
        """Raises DataError if there are none."""
        self.root = root
        self.paths = pictures_in(root)
        if not self.paths:
            raise DataError(f"{root}: has no pictures, expected those of the boxes")
        self._endings: dict[str, list[Path]] = {}
        for path in self.paths:
            parts = path.relative_to(root).parts
            for first in range(len(parts)):
                self._endings.setdefault("/".join(parts[first:]), []).append(path)

    def find(self, name: str, source: Path) -> Path:
        """The picture of a name, a path or its last parts, that a file `source` gives. Raises DataError."""
        parts = PurePosixPath(name.replace("\\", "/")).parts
        for first in range(len(parts)):
            found = self._endings.get("/".join(parts[first:]), [])
            if len(found) == 1:
                return found[0]
            if found:
                raise DataError(
                    f"{source}: names the picture {name!r}, which is {len(found)} times in {self.root}, expected once"
                )
        raise DataError(f"{source}: names the picture {name!r}, which is not in {self.root}")


def boxed_picture(
    path: Path, boxes: Iterable[Box], labels: Sequence[str], source: Path, *, relative: bool = False
) -> BoxedPicture:
    """The record of a picture file; source: what says its boxes. relative: these are fractions. Raises DataError."""
    some = list(boxes)
    unknown = [label for label, _, _ in some if label not in labels]
    if unknown:
        raise DataError(f"{source}: a box of {path.name} is of {unknown[0]!r}, expected {', '.join(labels)[:200]}")
    corners = np.array([box for _, box, _ in some], np.float32).reshape(-1, 4)
    require_boxes(corners, f"{source}, {path.name}")
    return BoxedPicture(
        name=str(path),
        read=partial(read_picture, path),
        boxes=corners,
        classes=np.array([labels.index(label) for label, _, _ in some], np.int64),
        difficult=np.array([difficult for _, _, difficult in some], np.bool_),
        known=np.ones(len(labels), np.bool_),
        relative=relative,
    )


def read_picture(path: Path) -> Pixels:
    """Pixels uint8 [H, W, 3], R, G, B, of a picture file, upright. Raises DataError."""
    try:
        pixels, _ = read_checked_picture(path)
    except FrameError as error:
        raise DataError(str(error)) from error
    return np.ascontiguousarray(pixels[..., ::-1])


def number(text: object, what: str, source: Path) -> float:
    """A number of an annotation. Raises DataError."""
    try:
        value = float(text)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        value = float("nan")
    if not np.isfinite(value):
        raise DataError(f"{source}: {what} is {str(text)[:40]!r}, expected a number")
    return value


def read_text(path: Path) -> str:
    """The text of an annotation file. Raises DataError."""
    try:
        return path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read as text: {why(error)}") from error
