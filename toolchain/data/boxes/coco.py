"""Reads boxes from a JSON file as COCO has them: `images`, `annotations` with `bbox` x, y, width, height, `categories`.

Crowds (`iscrowd`) are difficult. Labels are in the order of the categories' numbers; one that is only the
`supercategory` of others, as Roboflow adds it, is left out where it has no box.
"""

import json
from pathlib import Path
from typing import Any

from edgemeta.toolchain.data.boxes.found import Box, FoundPictures, boxed_picture, number, read_text
from edgemeta.toolchain.data.boxes.pictures import BoxedPictures
from edgemeta.toolchain.errors import DataError

_PARTS = ("images", "annotations", "categories")


def is_coco(path: Path) -> bool:
    """Whether a JSON file has the parts of a data set (they may still be wrong). Raises DataError."""
    content = _content(path)
    return isinstance(content, dict) and all(part in content for part in _PARTS)


def load_coco(path: Path, root: Path) -> BoxedPictures:
    """The pictures that a file names, in a folder or its sub-folders. Raises DataError."""
    content = _content(path)
    if not isinstance(content, dict) or not all(_are_objects(content.get(part)) for part in _PARTS):
        raise DataError(f"{path}: is no COCO file, expected the lists images, annotations and categories")
    used = {_key(each, "category_id", path) for each in content["annotations"]}
    above = {str(each.get("supercategory")) for each in content["categories"]}
    names = {
        _key(each, "id", path): str(each.get("name"))
        for each in sorted(content["categories"], key=lambda each: str(each.get("id")).zfill(9))
        if each.get("id") in used or each.get("name") not in above
    }
    labels = tuple(names.values())
    if not labels or len(set(labels)) < len(labels):
        raise DataError(f"{path}: its categories are {', '.join(labels)[:100] or 'none'}, expected different names")
    boxes: dict[object, list[Box]] = {_key(each, "id", path): [] for each in content["images"]}
    for each in content["annotations"]:
        image, label = _key(each, "image_id", path), names.get(_key(each, "category_id", path))
        if image not in boxes or label is None:
            raise DataError(f"{path}: an annotation is of image {image} and category {each['category_id']}, not in it")
        box = each.get("bbox")
        if not isinstance(box, list) or len(box) != 4:
            raise DataError(f"{path}: a box of image {image} is {str(box)[:40]}, expected x, y, width, height")
        x, y, width, height = (number(side, f"a box of image {image}", path) for side in box)
        if width > 0 and height > 0:  # exports have boxes without an area, which show nothing
            boxes[image].append((label, (x, y, x + width, y + height), bool(each.get("iscrowd"))))
    found = FoundPictures(root)
    return BoxedPictures(
        labels,
        tuple(
            boxed_picture(found.find(str(each.get("file_name")), path), boxes[each["id"]], labels, path)
            for each in content["images"]
        ),
    )


def _content(path: Path) -> Any:
    try:
        return json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: is no JSON ({str(error)[:80]})") from error


def _are_objects(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, dict) for each in value)


def _key(entry: dict[str, Any], name: str, path: Path) -> int | str:
    key = entry.get(name)
    if not isinstance(key, int | str):
        raise DataError(f"{path}: an entry has {name} {key!r}, expected a number or a text")
    return key
