"""Reads pictures with boxes from an `.npz` archive of JPEG files (docs/test-data.md, "Detection")."""

from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from edgemeta.toolchain.data.boxes.pictures import BoxedPicture, BoxedPictures, Pixels, require_boxes
from edgemeta.toolchain.data.jpeg_container import bounds_of
from edgemeta.toolchain.data.npz_files import labels_of, members_of, places_of
from edgemeta.toolchain.errors import DataError

_NEEDED = ("jpeg", "offsets", "boxes", "box_image", "box_label", "labels")


def load_box_archive(path: Path) -> BoxedPictures:
    """Read an archive with the members jpeg, offsets, boxes, box_image, box_label and labels.

    It may have difficult, labelled, source with sources, and name as well. Raises DataError.
    """
    members = members_of(path)
    missing = [name for name in _NEEDED if name not in members]
    if missing:
        raise DataError(f"{path}: has no {missing[0]}, expected {', '.join(_NEEDED)}: JPEG files with boxes")
    labels = labels_of(path, members["labels"])
    jpeg, boxes = members["jpeg"], members["boxes"]
    bounds = bounds_of(path, jpeg, members["offsets"])
    count = len(bounds) - 1
    if boxes.dtype.kind not in "iuf" or boxes.ndim != 2 or boxes.shape[1] != 4:
        raise DataError(f"{path}: boxes is {boxes.dtype} {boxes.shape}, expected numbers [boxes, 4]")
    image = places_of(path, "box_image", members["box_image"], len(boxes), count)
    label = places_of(path, "box_label", members["box_label"], len(boxes), len(labels))
    optional = _Optional(path, members, count, len(boxes), len(labels))
    order = np.argsort(image, kind="stable")
    cuts = np.searchsorted(image[order], np.arange(count + 1))
    pictures = []
    for number in range(count):  # their sizes are not known before they are decoded
        some = order[cuts[number] : cuts[number + 1]]
        content = jpeg[bounds[number] : bounds[number + 1]]
        require_boxes(boxes[some], f"{path}: picture {number}")
        pictures.append(
            BoxedPicture(
                optional.names[number],
                partial(_decoded, content, f"{path}: picture {number}"),
                boxes[some].astype(np.float32),
                label[some],
                optional.difficult[some],
                optional.known[number],
                optional.sources[number],
            )
        )
    return BoxedPictures(labels, tuple(pictures))


class _Optional:
    """What an archive may leave out."""

    def __init__(self, path: Path, members: dict[str, NDArray[Any]], count: int, boxes: int, labels: int) -> None:
        shapes = {"difficult": (boxes,), "labelled": (count, labels), "name": (count,)}
        for name, shape in shapes.items():
            if name in members and members[name].shape != shape:
                raise DataError(f"{path}: {name} is {members[name].shape}, expected {shape}")
        named = [str(each) for each in members.get("sources", [])]
        source = (
            places_of(path, "source", members["source"], count, len(named)) if named and "source" in members else None
        )
        self.difficult = members.get("difficult", np.zeros(boxes)).astype(np.bool_)
        self.known = members.get("labelled", np.ones((count, labels))).astype(np.bool_)
        self.names = [str(name) for name in members.get("name", np.arange(count))]
        self.sources = [""] * count if source is None else [named[place] for place in source]


def _decoded(content: NDArray[np.uint8], where: str) -> Pixels:
    image = cv2.imdecode(content, cv2.IMREAD_COLOR)
    if image is None:
        raise DataError(f"{where} cannot be decoded, expected a JPEG file")
    result: Pixels = np.ascontiguousarray(image[..., ::-1]).astype(np.uint8, copy=False)
    return result
