"""What exporters write into a file beside its network: names of labels and points, task, stride, size and pixels.

Ultralytics writes them as ONNX's metadata, and into an archive behind a TFLite network; TFLite Support writes a list of
labels into such an archive. Of the keys that ONNX itself defines those of pixels are read (its docs/MetadataProps.md).
"""

import ast
import io
import json
import lzma
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from edgemeta.model.tasks import (
    Classification,
    Detection,
    Embedding,
    MultiLabel,
    ObjectPoints,
    Raw,
    Segmentation,
    Task,
    task_name,
)

MAX_BYTES = 1 << 22
"""Of a list of labels in a file."""
MAX_LABELS = 100_000
MAX_STRIDE = 1 << 16
_DAMAGED = (zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error, lzma.LZMAError)


@dataclass(frozen=True)
class StoredNames:
    """labels, points: () where the file has none. The others are None where it does not say.

    size: H, W. task: Ultralytics' name of it. stride: of the coarsest grid, in pixels. pixels: fields of Pixels.
    """

    labels: tuple[str, ...] = ()
    size: tuple[int, int] | None = None
    task: str | None = None
    stride: int | None = None
    points: tuple[str, ...] = ()
    pixels: Mapping[str, Any] = field(default_factory=dict)

    def contradictions(self, size: tuple[int, int], task: Task, stride: float | None) -> Iterator[str]:
        """What it says that is not so, as notes; the network counts. stride: of the coarsest grid of a detection."""
        if self.size is not None and self.size != size:
            stated, found = ("x".join(map(str, each)) for each in (self.size, size))
            yield f"the file says that its images are {stated}, its network takes {found}"
        kinds = _TASKS.get(self.task or "", ())
        if kinds and not isinstance(task, (*kinds, Raw)):
            yield f"the file says that its task is {self.task}, what was recognized is {task_name(task)}"
        elif isinstance(task, Detection) and isinstance(task.extras, ObjectPoints) != (self.task == "pose") and kinds:
            yield f"the file says that its task is {self.task}, {'' if task.extras else 'no '}points were recognized"
        if self.stride is not None and stride is not None and self.stride != stride:
            yield f"the file says a stride of {self.stride}, its coarsest grid has {stride:g}"


_TASKS: Mapping[str, tuple[type, ...]] = {
    "classify": (Classification, MultiLabel, Embedding),
    "detect": (Detection,),
    "segment": (Detection, Segmentation),
    "pose": (Detection,),
}
_COLOURS: Mapping[Any, dict[str, Any]] = {
    f"{name.capitalize()}8": {"colour": name} for name in ("gray", "rgb", "bgr", "rgba", "bgra")
}
_RANGES: Mapping[Any, dict[str, Any]] = {
    "NominalRange_0_255": {"mean": (0.0,), "deviation": (1.0,)},
    "Normalized_0_1": {"mean": (0.0,), "deviation": (255.0,)},
    "Normalized_1_1": {"mean": (127.5,), "deviation": (127.5,)},
}
TURNED = "obb"
"""Ultralytics' task of boxes with an angle."""


def of_metadata(values: Mapping[str, Any]) -> StoredNames:
    """Of Ultralytics' keys, each as it is or as the text of a Python or JSON value."""
    task, stride = values.get("task"), _plain(values.get("stride"))
    points = _plain(values.get("kpt_names"))
    return StoredNames(
        _labels(_plain(values.get("names"))),
        _size(_plain(values.get("imgsz"))),
        task if isinstance(task, str) and task in (*_TASKS, TURNED) else None,
        stride if isinstance(stride, int) and 1 <= stride <= MAX_STRIDE else None,
        _labels(next(iter(points.values()), None) if isinstance(points, dict) else points),
        _COLOURS.get(values.get("Image.BitmapPixelFormat"), {})
        | _RANGES.get(values.get("Image.NominalPixelRange"), {}),
    )


def of_archive(data: bytes) -> StoredNames:
    """Of the archive behind the network of a TFLite file. Nothing where there is none, or one that is damaged."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            files = [each for each in archive.infolist() if each.file_size <= MAX_BYTES]
            texts = {each.filename: _text(archive, each) for each in files if each.filename.endswith((".txt", ".json"))}
    except (*_DAMAGED, OSError, ValueError, NotImplementedError, RuntimeError, EOFError):
        return StoredNames()
    for text in texts.values():
        found = _plain(text) if text.lstrip().startswith("{") else None
        if isinstance(found, dict) and "names" in found:
            return of_metadata(found)
    lists = [text for name, text in sorted(texts.items()) if name.endswith(".txt") and "label" in name.lower()]
    if len(lists) != 1:
        return StoredNames()
    return StoredNames(tuple(line.strip() for line in lists[0].splitlines() if line.strip())[:MAX_LABELS])


def _text(archive: zipfile.ZipFile, file: zipfile.ZipInfo) -> str:
    with archive.open(file) as opened:
        return opened.read(MAX_BYTES).decode("utf-8", "replace")


def _plain(value: Any) -> Any:
    """A value, or that of its text; None for a text that is no value."""
    if not isinstance(value, str) or len(value) > MAX_BYTES:
        return None if isinstance(value, str) else value
    for read in (json.loads, ast.literal_eval):
        try:
            return read(value)
        except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
            continue
    return None


def _labels(value: Any) -> tuple[str, ...]:
    """Of a list, or of a dictionary by number from 0."""
    if isinstance(value, dict):
        by_number = {str(key): label for key, label in value.items()}
        value = [by_number.get(str(number)) for number in range(len(by_number))]
    if not isinstance(value, list | tuple) or not 0 < len(value) <= MAX_LABELS:
        return ()
    return tuple(value) if all(isinstance(each, str) and each.strip() for each in value) else ()


def _size(value: Any) -> tuple[int, int] | None:
    if not isinstance(value, list | tuple) or len(value) != 2 or not all(isinstance(each, int) for each in value):
        return None
    return (value[0], value[1]) if min(value) >= 1 else None
