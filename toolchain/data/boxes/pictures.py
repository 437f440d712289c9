"""Pictures of any sizes with boxes, as people have them: what the readers give and a detector's training takes."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, replace
from functools import cached_property
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from edgemeta.model.preprocess import letterbox
from edgemeta.toolchain.data.boxed_images import BoxedImages
from edgemeta.toolchain.data.split import choose
from edgemeta.toolchain.errors import DataError

Pixels = NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class BoxedPicture:
    """One picture. Arrays have a row for each of its n boxes.

    name: for people, such as its path. read: gives its pixels, uint8 [H, W, 3], R, G, B; raises DataError. boxes:
    float32 [n, 4], x0, y0, x1, y1 in pixels, x0 < x1 and y0 < y1 inside of the picture. classes: int64 [n], places in
    the labels. difficult: bool [n], neither right nor wrong if found. known: bool [labels], whether objects of a label
    were annotated in this picture: where not, one without a box is no error. source: where it comes from, or "".
    relative: boxes are fractions of the picture's width and height.
    """

    name: str
    read: Callable[[], Pixels]
    boxes: NDArray[np.float32]
    classes: NDArray[np.int64]
    difficult: NDArray[np.bool_]
    known: NDArray[np.bool_]
    source: str = ""
    relative: bool = False


@dataclass(frozen=True, eq=False)
class BoxedPictures:
    """Pictures and the labels of their boxes.

    all_labels: whether `labels` are all that were annotated, or only those that occur.
    """

    labels: tuple[str, ...]
    pictures: tuple[BoxedPicture, ...]
    all_labels: bool = True

    def __len__(self) -> int:
        return len(self.pictures)

    def take(self, numbers: Sequence[int]) -> "BoxedPictures":
        """The pictures of these numbers."""
        return replace(self, pictures=tuple(self.pictures[number] for number in numbers))

    def without(self, sources: Sequence[str]) -> "BoxedPictures":
        """Those that come from none of these sources."""
        return replace(self, pictures=tuple(each for each in self.pictures if each.source not in sources))

    def numbered_by(self, labels: tuple[str, ...], path: Path) -> "BoxedPictures":
        """The same with other labels, among which all of its own are; a further one was annotated if any may be.

        path: for messages. Raises DataError.
        """
        unknown = [label for label in self.labels if label not in labels]
        if unknown:
            raise DataError(
                f"{path}: has the label {unknown[0]!r}, expected those of the training pictures: "
                f"{', '.join(labels)[:200]}"
            )
        places = np.array([labels.index(label) for label in self.labels], np.int64)

        def numbered(picture: BoxedPicture) -> BoxedPicture:
            known = np.full(len(labels), not self.all_labels)
            known[places] = picture.known
            return replace(picture, classes=places[picture.classes], known=known)

        return replace(self, labels=labels, pictures=tuple(numbered(each) for each in self.pictures))

    def read(self, side: int) -> "ReadPictures":
        """All pictures in memory, the longer side at most `side` pixels, scaled down by area averages."""
        return ReadPictures(self.labels, tuple(_read(picture, side) for picture in self.pictures))


@dataclass(frozen=True, eq=False)
class ReadPicture:
    """A picture in memory: pixels uint8 [H, W, 3], R, G, B, and `BoxedPicture`'s fields for boxes in its pixels."""

    pixels: Pixels
    boxes: NDArray[np.float32]
    classes: NDArray[np.int64]
    difficult: NDArray[np.bool_]
    known: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class ReadPictures:
    """Pictures in memory."""

    labels: tuple[str, ...]
    pictures: tuple[ReadPicture, ...]

    def __len__(self) -> int:
        return len(self.pictures)

    @cached_property
    def sha256(self) -> str:
        """SHA-256 (hex) of pixels, boxes and labels."""
        digest = hashlib.sha256(repr(self.labels).encode())
        for each in self.pictures:
            digest.update(repr(each.pixels.shape).encode())
            for array in (each.pixels, each.boxes, each.classes, each.difficult, each.known):
                digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    def letterboxed(self, size: tuple[int, int], fill: int) -> BoxedImages:
        """All pictures with `size` (height, width), in the middle, `fill` beside them: a data set to measure."""
        x = np.full((len(self), *size, 3), fill, np.uint8)
        boxes = []
        for target, each in zip(x, self.pictures, strict=True):
            height, width = each.pixels.shape[:2]
            top, left, rows, columns = astuple(letterbox((height, width), size))
            target[top : top + rows, left : left + columns] = scaled(each.pixels, columns, rows)
            shift = np.array([left, top] * 2, np.float32)
            boxes.append(each.boxes * np.array([columns / width, rows / height] * 2, np.float32) + shift)
        return BoxedImages(
            x,
            np.concatenate([*boxes, np.empty((0, 4), np.float32)]),
            np.concatenate([*(each.classes for each in self.pictures), np.empty(0, np.int64)]),
            np.repeat(np.arange(len(self)), [len(each.boxes) for each in self.pictures]),
            self.labels,
            np.concatenate([*(each.difficult for each in self.pictures), np.empty(0, np.bool_)]),
            np.array([each.known for each in self.pictures], np.bool_).reshape(len(self), len(self.labels)),
        )


def require_boxes(boxes: NDArray[np.floating], where: str) -> None:
    """Raise DataError for boxes [n, 4] that are not x0 < x1, y0 < y1, finite numbers."""
    good = np.isfinite(boxes).all(1) & (boxes[:, 0] < boxes[:, 2]) & (boxes[:, 1] < boxes[:, 3])
    if not good.all():
        wrong = int(np.argmin(good))
        raise DataError(f"{where}: box {wrong} is {boxes[wrong].tolist()}, expected x0 < x1 and y0 < y1")


def scaled(pixels: Pixels, columns: int, rows: int) -> Pixels:
    """A picture [H, W, 3] as [rows, columns, 3]: by area averages if it becomes smaller, else bilinear."""
    smaller = rows <= pixels.shape[0] and columns <= pixels.shape[1]
    method = cv2.INTER_AREA if smaller else cv2.INTER_LINEAR
    result: Pixels = cv2.resize(pixels, (columns, rows), interpolation=method)  # type: ignore[assignment]
    return result


def _read(picture: BoxedPicture, side: int) -> ReadPicture:
    pixels = picture.read()
    height, width = pixels.shape[:2]
    rows, columns = height, width
    if max(height, width) > side:
        shown = letterbox((height, width), (side, side))
        rows, columns = shown.height, shown.width
        pixels = scaled(pixels, columns, rows)
    given = picture.boxes * np.array([width, height] * 2, np.float32) if picture.relative else picture.boxes
    boxes = np.clip(given, 0, np.array([width, height] * 2, np.float32))
    require_boxes(boxes, f"{picture.name}, {width}x{height} pixels")
    boxes = boxes * np.array([columns / width, rows / height] * 2, np.float32)
    return ReadPicture(pixels, boxes, picture.classes, picture.difficult, picture.known)


def held_out_pictures(given: BoxedPictures, share: float, seed: int, path: Path) -> tuple[BoxedPictures, BoxedPictures]:
    """All but a part of about `share` of the pictures, and that part: the same ones in any order (`split.choose`).

    Pictures with the same pixels stay together. Raises DataError for fewer than two pictures.
    """
    if len(given) < 2:
        raise DataError(f"{path}: has {len(given)} pictures with boxes, expected at least 2 to hold out a part")
    digests = [hashlib.sha256(each.read().tobytes()).hexdigest() for each in given.pictures]
    part = choose(np.zeros(len(given), np.int64), digests, share, seed, digests)
    return given.take(np.flatnonzero(~part).tolist()), given.take(np.flatnonzero(part).tolist())
