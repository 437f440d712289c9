"""Reads pictures with boxes from an `.npz` archive of JPEG files (docs/test-data.md, "Detection")."""

from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from edgemeta.toolchain.data.boxes.pictures import BoxedPicture, BoxedPictures, Pixels, require_boxes
from edgemeta.toolchain.data.npz_files import labels_of, members_of
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
    bounds = members["offsets"].astype(np.int64)
    count, jpeg = len(bounds) - 1, members["jpeg"]
    if count < 1 or bounds[0] != 0 or (np.diff(bounds) <= 0).any() or bounds[-1] != len(jpeg):
        raise DataError(f"{path}: offsets do not cut jpeg into pictures, expected ascending ones from 0 to {len(jpeg)}")
    boxes, image, label = (members[name] for name in ("boxes", "box_image", "box_label"))
    if boxes.ndim != 2 or boxes.shape[1] != 4 or not len(boxes) == len(image) == len(label):
        raise DataError(f"{path}: boxes is {boxes.shape}, expected [boxes, 4] with a box_image and box_label for each")
    if len(boxes) and not (image.min() >= 0 and image.max() < count and label.max() < len(labels)):
        raise DataError(
            f"{path}: a box names image {image.max()} or label {label.max()}, expected those in the archive"
        )
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
                label[some].astype(np.int64),
                optional.difficult[some],
                optional.known[number],
                optional.sources[number],
            )
        )
    return BoxedPictures(labels, tuple(pictures))


class _Optional:
    """What an archive may leave out."""

    def __init__(self, path: Path, members: dict[str, NDArray[Any]], count: int, boxes: int, labels: int) -> None:
        shapes = {"difficult": (boxes,), "labelled": (count, labels), "source": (count,), "name": (count,)}
        for name, shape in shapes.items():
            if name in members and members[name].shape != shape:
                raise DataError(f"{path}: {name} is {members[name].shape}, expected {shape}")
        named = [str(each) for each in members.get("sources", [])]
        if named and "source" in members and members["source"].max() >= len(named):
            raise DataError(
                f"{path}: source runs to {members['source'].max()}, expected a place among the {len(named)} sources"
            )
        self.difficult = members.get("difficult", np.zeros(boxes)).astype(np.bool_)
        self.known = members.get("labelled", np.ones((count, labels))).astype(np.bool_)
        self.names = [str(name) for name in members.get("name", np.arange(count))]
        self.sources = [named[place] for place in members["source"]] if named and "source" in members else [""] * count


def _decoded(content: NDArray[np.uint8], where: str) -> Pixels:
    image = cv2.imdecode(content, cv2.IMREAD_COLOR)
    if image is None:
        raise DataError(f"{where} cannot be decoded, expected a JPEG file")
    result: Pixels = np.ascontiguousarray(image[..., ::-1]).astype(np.uint8, copy=False)
    return result
