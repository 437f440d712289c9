"""Reads boxes from text files as YOLO's programs have them: a line `class x y width height` for each, in fractions.

The text file of a picture has its name, beside it or with `labels` for `images` in its path; a picture without one has
no objects. A line with more numbers is an outline `class x y x y ..`, whose box is taken. The names of the classes are
in a YAML file (`names`, as list or by number) or a line each in `classes.txt` or `obj.names`.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from edgemeta.toolchain.data.boxes.found import Box, FoundPictures, boxed_picture, number, read_text
from edgemeta.toolchain.data.boxes.pictures import BoxedPictures
from edgemeta.toolchain.errors import DataError

_LISTS = ("classes.txt", "obj.names")


def names_file(folder: Path) -> Path | None:
    """The file with the names of a data set, in its folder or the one above; None without."""
    for place in (folder, folder.parent):
        for path in (*sorted(place.glob("*.yaml")), *sorted(place.glob("*.yml")), *(place / name for name in _LISTS)):
            if path.is_file() and (path.name in _LISTS or "names" in _entries(path)):
                return path
    return None


def load_yolo(folder: Path, names: Path) -> BoxedPictures:
    """All pictures in a folder and its sub-folders, with the boxes of their text files. Raises DataError."""
    labels = _labels(names)
    found = FoundPictures(folder)
    pictures = []
    for path in found.paths:
        text = _text_of(path)
        boxes = () if text is None else _boxes(text, labels)
        pictures.append(boxed_picture(path, boxes, labels, text or path, relative=True))
    if all(not len(each.boxes) for each in pictures):
        raise DataError(f"{folder}: no picture has a text file with boxes, expected some beside them or in labels/")
    return BoxedPictures(labels, tuple(pictures))


def _entries(path: Path) -> dict[Any, Any]:
    try:
        entries = yaml.safe_load(read_text(path))
    except yaml.YAMLError as error:
        raise DataError(f"{path}: is no YAML ({' '.join(str(error).split())[:100]})") from error
    return entries if isinstance(entries, dict) else {}


def _labels(path: Path) -> tuple[str, ...]:
    if path.name in _LISTS:
        names: Any = [line.strip() for line in read_text(path).splitlines() if line.strip()]
    else:
        names = _entries(path).get("names")
    if isinstance(names, dict):
        if sorted(names) != list(range(len(names))):
            raise DataError(f"{path}: names are numbered {sorted(names, key=str)[:9]}, expected 0, 1, 2 ..")
        names = [names[place] for place in range(len(names))]
    if not isinstance(names, list) or not names or len({str(name) for name in names}) < len(names):
        raise DataError(f"{path}: names is {str(names)[:60]!r}, expected a list of different names")
    return tuple(str(name) for name in names)


def _text_of(path: Path) -> Path | None:
    parts = list(path.with_suffix(".txt").parts)
    places = [place for place, part in enumerate(parts) if part == "images"]
    candidates = [path.with_suffix(".txt")]
    if places:
        candidates.insert(0, Path(*parts[: places[-1]], "labels", *parts[places[-1] + 1 :]))
    return next((each for each in candidates if each.is_file() and each.name not in _LISTS), None)


def _boxes(path: Path, labels: tuple[str, ...]) -> Iterator[Box]:
    for place, line in enumerate(read_text(path).splitlines(), 1):
        fields = line.split()
        if not fields:
            continue
        label, *numbers = (number(each, f"line {place}", path) for each in fields)
        if label not in range(len(labels)):
            raise DataError(f"{path}: line {place} is of class {fields[0]}, expected 0..{len(labels) - 1}")
        if len(numbers) == 4:
            x, y, width, height = numbers
            box = (x - width / 2, y - height / 2, x + width / 2, y + height / 2)
        elif len(numbers) >= 6 and len(numbers) % 2 == 0:
            columns, rows = numbers[::2], numbers[1::2]
            box = (min(columns), min(rows), max(columns), max(rows))
        else:
            raise DataError(
                f"{path}: line {place} has {len(fields)} numbers, expected class x y width height, or an outline"
            )
        if min(box) < -0.5 or max(box) > 1.5:
            raise DataError(f"{path}: line {place} is {line[:60]!r}, expected fractions 0..1 of the picture")
        yield labels[int(label)], box, False
