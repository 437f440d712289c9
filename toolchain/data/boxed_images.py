"""Images with boxes around what they show: the data set of a detector, and its file."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.atomic_write import atomic_file
from edgemeta.toolchain.data.copies import picture_digests
from edgemeta.toolchain.data.labelled_images import first_places
from edgemeta.toolchain.data.npz_files import has_member, labels_of, members_of, pixels_of, places_of
from edgemeta.toolchain.data.split import choose
from edgemeta.toolchain.errors import DataError

_MEMBERS = ("x", "boxes", "classes", "images", "labels")
_OPTIONAL = ("difficult", "known")


@dataclass(frozen=True, eq=False)
class BoxedImages:
    """Images and the boxes of the objects in them.

    x: uint8 [N, H, W, 3], R, G, B; N >= 1. boxes: float32 [M, 4], x0, y0, x1, y1 in pixels, with x0 < x1 and y0 < y1
    inside of the image. classes: int64 [M], places in `labels`. images: int64 [M], the image of each box, ascending.
    difficult: bool [M], boxes that are neither missed nor found; None: there are none. known: bool [N, labels], whether
    a label was annotated in an image: where not, its objects do not count; None: everywhere.
    """

    x: NDArray[np.uint8]
    boxes: NDArray[np.float32]
    classes: NDArray[np.int64]
    images: NDArray[np.int64]
    labels: tuple[str, ...]
    difficult: NDArray[np.bool_] | None = None
    known: NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return len(self.x)

    def objects(self, image: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Boxes [n, 4] and classes [n] of one image."""
        first, last = np.searchsorted(self.images, (image, image + 1))
        return self.boxes[first:last], self.classes[first:last]

    def frames(self) -> Iterator[tuple[int, NDArray[np.uint8]]]:
        """The number, from 0, and the pixels, uint8 [H, W, 3], B, G, R, of each image."""
        for number, image in enumerate(self.x):
            yield number, np.ascontiguousarray(image[..., ::-1])

    def take(self, numbers: NDArray[np.integer]) -> "BoxedImages":
        """The images of these numbers [n], in their order."""
        objects = [self.objects(number) for number in numbers.tolist()]
        counts = [len(classes) for _, classes in objects]
        return BoxedImages(
            self.x[numbers],
            np.concatenate([boxes for boxes, _ in objects] or [self.boxes[:0]]),
            np.concatenate([classes for _, classes in objects] or [self.classes[:0]]),
            np.repeat(np.arange(len(numbers)), counts),
            self.labels,
            None if self.difficult is None else self.difficult[self._boxes_of(numbers)],
            None if self.known is None else self.known[numbers],
        )

    def _boxes_of(self, numbers: NDArray[np.integer]) -> NDArray[np.int64]:
        """Places of the boxes of these images."""
        bounds = [np.searchsorted(self.images, (number, number + 1)) for number in numbers.tolist()]
        return np.concatenate([np.empty(0, np.int64), *(np.arange(*each) for each in bounds)])

    def sha256(self) -> str:
        """SHA-256 (hex) of pixels, boxes and classes, and of what is difficult and known where that is said."""
        digest = hashlib.sha256(repr((self.x.shape, self.labels)).encode())
        optional = [array for array in (self.difficult, self.known) if array is not None]
        for array in (self.x, self.boxes, self.classes, self.images, *optional):
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()


def boxed_part(images: BoxedImages, share: float, seed: int) -> NDArray[np.bool_]:
    """Which images are in a part that has about `share` of them, bool [N]: the same ones in any order (`split.choose`).

    Images with the same pixels stay together. Raises DataError.
    """
    if len(images) < 2:
        raise DataError(f"there are {len(images)} images, expected at least 2 to hold out a part")
    digests = picture_digests(images.x)
    return choose(np.zeros(len(images), np.int64), digests, share, seed, digests)


def is_boxed(path: Path) -> bool:
    """Whether a file is an archive with boxes (it may still be wrong)."""
    return has_member(path, "boxes")


def save_boxed_images(data: BoxedImages, path: Path) -> None:
    """Write a data set as a compressed `.npz` archive, atomically."""
    with atomic_file(path) as file:
        names = [name for name in (*_MEMBERS, *_OPTIONAL) if name != "labels"]
        arrays = {name: array for name in names if (array := getattr(data, name)) is not None}
        np.savez_compressed(file, **arrays, labels=np.array(data.labels))


def load_boxed_images(path: Path, labels: tuple[str, ...] | None = None, size: int | None = None) -> BoxedImages:
    """Read a data set that `save_boxed_images` has written, or one with the same members.

    labels: those that the classes are to be numbered by, as a network has them. size: side of the square images, where
    it matters. Raises DataError.
    """
    members = members_of(path)
    missing = [name for name in _MEMBERS if name not in members]
    if missing:
        raise DataError(f"{path}: has no {missing[0]}, expected {', '.join(_MEMBERS)}: images with boxes")
    x, own = pixels_of(path, members["x"]), labels_of(path, members["labels"])
    boxes = _boxes(path, members["boxes"], x.shape[1:3])
    classes = places_of(path, "classes", members["classes"], len(boxes), len(own))
    images = places_of(path, "images", members["images"], len(boxes), len(x))
    if (np.diff(images) < 0).any():
        raise DataError(f"{path}: images of the boxes are not in order, expected ascending numbers")
    if size is not None and x.shape[1:3] != (size, size):
        raise DataError(f"{path}: images are {x.shape[2]}x{x.shape[1]} pixels, expected {size}x{size}")
    difficult = _flags(path, members, "difficult", (len(boxes),))
    known = _flags(path, members, "known", (len(x), len(own)))
    if labels is not None:
        classes = _renumbered(path, classes, own, labels)
        known = None if known is None else _reordered(known, own, labels)
    return BoxedImages(x, boxes, classes, images, own if labels is None else labels, difficult, known)


def _boxes(path: Path, boxes: NDArray[Any], image: tuple[int, ...]) -> NDArray[np.float32]:
    if boxes.dtype.kind not in "iuf" or boxes.ndim != 2 or boxes.shape[1] != 4:
        raise DataError(f"{path}: boxes is {boxes.dtype} {boxes.shape}, expected numbers [boxes, 4]")
    height, width = image
    x0, y0, x1, y1 = boxes.T
    good = (x0 >= 0) & (y0 >= 0) & (x0 < x1) & (y0 < y1) & (x1 <= width) & (y1 <= height)
    if not good.all():
        wrong = int(np.argmin(good))
        raise DataError(
            f"{path}: box {wrong} is {boxes[wrong].tolist()}, expected x0 < x1 and y0 < y1 inside of {width}x{height}"
        )
    return boxes.astype(np.float32)


def _flags(path: Path, members: dict[str, NDArray[Any]], name: str, shape: tuple[int, ...]) -> NDArray[np.bool_] | None:
    flags = members.get(name)
    if flags is not None and (flags.dtype != np.bool_ or flags.shape != shape):
        raise DataError(f"{path}: {name} is {flags.dtype} {flags.shape}, expected bool {shape}")
    return flags


def _reordered(known: NDArray[np.bool_], own: tuple[str, ...], labels: tuple[str, ...]) -> NDArray[np.bool_]:
    """What is known of the labels of a network; of those that the archive does not name, nothing."""
    result = np.zeros((len(known), len(labels)), np.bool_)
    for place, label in enumerate(labels):
        if label in own:
            result[:, place] = known[:, own.index(label)]
    return result


def _renumbered(
    path: Path, classes: NDArray[np.int64], own: tuple[str, ...], labels: tuple[str, ...]
) -> NDArray[np.int64]:
    unknown = [own[number] for number in np.unique(classes).tolist() if own[number] not in labels]
    if unknown:
        raise DataError(
            f"{path}: the class {unknown[0]!r} is no label of the model, expected {', '.join(labels)[:200]}"
        )
    places = first_places(labels)
    renumbered: NDArray[np.int64] = np.array([places.get(label, -1) for label in own], np.int64)[classes]
    return renumbered
