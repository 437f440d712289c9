"""Opens pictures with boxes, in whatever form people have them, and pictures without."""

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgemeta.toolchain.data.boxed_images import BoxedImages, load_boxed_images
from edgemeta.toolchain.data.boxes.archive import load_box_archive
from edgemeta.toolchain.data.boxes.coco import is_coco, load_coco
from edgemeta.toolchain.data.boxes.found import FoundPictures, read_picture
from edgemeta.toolchain.data.boxes.pictures import BoxedPicture, BoxedPictures, Pixels
from edgemeta.toolchain.data.boxes.xml_files import load_cvat, load_voc, parsed
from edgemeta.toolchain.data.boxes.yolo import load_yolo, names_file
from edgemeta.toolchain.data.npz_files import has_member
from edgemeta.toolchain.errors import DataError

_GREY = 128
_FORMS = "an archive, or a folder with boxes of YOLO, COCO, Pascal VOC or CVAT"


def open_boxed_pictures(path: Path) -> BoxedPictures:
    """Read the boxes of a data set; pixels are read later.

    path: an archive; or a folder, in which the annotations are found; or a file of COCO (.json), of CVAT (.xml) or with
    the names of YOLO's classes (.yaml), whose pictures are in its folder. Raises DataError.
    """
    if path.is_dir():
        return _open_folder(path)
    if not path.is_file():
        raise DataError(f"{path}: is not there, expected {_FORMS}")
    match path.suffix.lower():
        case ".npz":
            return load_box_archive(path) if has_member(path, "jpeg") else _of_images(path)
        case ".json":
            return load_coco(path, path.parent)
        case ".xml":
            return load_cvat(path, path.parent)
        case ".yaml" | ".yml":
            return load_yolo(path.parent, path)
    raise DataError(f"{path}: has no known form, expected {_FORMS}")


def open_boxed_images(path: Path, labels: tuple[str, ...], size: tuple[int, int]) -> BoxedImages:
    """Pictures with boxes, to measure a network that has these labels and an input of `size` (height, width).

    Those of an archive of images of one size stay as they are; others stand in the middle of grey. Raises DataError.
    """
    if path.suffix.lower() == ".npz" and not has_member(path, "jpeg"):
        return load_boxed_images(path, labels=labels)
    return open_boxed_pictures(path).numbered_by(labels, path).read(max(size)).letterboxed(size, _GREY)


class BoxedFrames:
    """The pictures of an archive with boxes as frames: at most `most` of them, evenly chosen. Raises DataError."""

    def __init__(self, path: Path, most: int = sys.maxsize) -> None:
        self.source = str(path)
        found = open_boxed_pictures(path).pictures
        count = min(most, len(found))
        self._pictures = [found[i * len(found) // count] for i in range(count)]

    def __len__(self) -> int:
        return len(self._pictures)

    def __iter__(self) -> Iterator[Pixels]:
        for each in self._pictures:
            yield np.ascontiguousarray(each.read()[..., ::-1])


def _open_folder(folder: Path) -> BoxedPictures:
    xml = sorted(folder.rglob("*.xml"))
    tables = [path for path in sorted(folder.rglob("*.json")) if is_coco(path)]
    exports = [path for path in xml if path.name == "annotations.xml" or parsed(path).tag == "annotations"]
    names = names_file(folder)
    if len(tables) + len(exports) > 1:
        first, second = (tables + exports)[:2]
        raise DataError(f"{folder}: has the annotations {first.name} and {second.name}, expected one; name its file")
    if tables:
        return load_coco(tables[0], folder)
    if exports:
        return load_cvat(exports[0], folder)
    if xml:
        return load_voc(xml, folder)
    if names is not None:
        return load_yolo(folder, names)
    raise DataError(f"{folder}: has no annotations, expected {_FORMS} (YOLO's needs data.yaml or classes.txt)")


def _of_images(path: Path) -> BoxedPictures:
    """An archive of squares as `edgemeta scenes` writes it."""
    images = load_boxed_images(path)
    count = len(images.boxes)
    difficult = np.zeros(count, np.bool_) if images.difficult is None else images.difficult
    pictures = []
    for number, pixels in enumerate(images.x):
        first, last = np.searchsorted(images.images, (number, number + 1)).tolist()
        known = np.ones(len(images.labels), np.bool_) if images.known is None else images.known[number]
        own = slice(first, last)
        pictures.append(
            BoxedPicture(
                f"{path}: picture {number}",
                partial(_given, pixels),
                images.boxes[own],
                images.classes[own],
                difficult[own],
                known,
            )
        )
    return BoxedPictures(images.labels, tuple(pictures))


def _given(pixels: NDArray[np.uint8]) -> Pixels:
    return pixels


def open_without_boxes(folder: Path, labels: tuple[str, ...], *, empty: bool) -> BoxedPictures:
    """The pictures in a folder and its sub-folders; empty: they show none of the labels, else nobody knows.

    Raises DataError.
    """
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
                known=np.full(len(labels), empty),
                source=path.parent.name if path.parent != folder else folder.name,
            )
            for path in FoundPictures(folder).paths
        ),
    )
