"""What the last convolutions of a detection mean: which are boxes, objectness and classes of which grid."""

from collections.abc import Iterable
from dataclasses import dataclass

from edgemeta.toolchain.importer.heads.ends import End
from edgemeta.toolchain.importer.heads.task_settings import Anchors, Decoding, TaskSettings

BINS = 64
"""Box channels of YOLOv8: four distances of 16 numbers."""


class HeadError(Exception):
    """The ends of a network are not those of a known detection; the text says what was found and what to do."""


@dataclass(frozen=True)
class Level:
    """One grid: its ends, the anchors of a cell, and its stride in pixels (None: input divided by grid).

    joined: all numbers of an anchor are in one convolution, channels box, objectness, classes. first_class: 1 if class
    0 is a background whose score is not used, and to be left out.
    """

    boxes: End
    objectness: End | None
    classes: End
    anchors: Anchors
    stride: tuple[float, float] | None
    joined: bool = False
    first_class: int = 0


@dataclass(frozen=True)
class Heads:
    """The levels, from the finest grid to the coarsest; how many labels they tell apart."""

    decoding: Decoding
    levels: tuple[Level, ...]
    labels: int
    background: bool = False


def heads_of(ends: tuple[End, ...], settings: TaskSettings) -> Heads:
    """Recognize the levels of a detection. Raises HeadError."""
    grids: dict[tuple[int, int], list[End]] = {}
    for end in ends:
        grids.setdefault(end.shape[:2], []).append(end)
    finest_first = sorted(grids.values(), key=lambda ends: -ends[0].shape[0] * ends[0].shape[1])
    ordered = [level for ends in finest_first for level in _apart(ends)]
    if not ordered:
        raise HeadError("the outputs do not come from convolutions by operations that a decoding is made of")
    decoding = settings.decoding or _recognized(ordered, settings)
    _check_settings(decoding, settings, len(ordered))
    anchors = settings.anchors or ((),) * len(ordered)
    strides = settings.strides or (None,) * len(ordered)
    levels, counts, background = [], set(), False
    for level_ends, level_anchors, stride in zip(ordered, anchors, strides, strict=True):
        match decoding:
            case "yolox":
                level, count = _yolox(level_ends, stride), 0
                count = level.classes.shape[2]
            case "yolov8":
                level = _yolov8(level_ends, stride)
                count = level.classes.shape[2]
            case "yolov3":
                level, count = _yolov3(level_ends, level_anchors, stride)
            case "ssd":
                level, count, background = _ssd(level_ends, level_anchors, stride, settings)
        levels.append(level)
        counts.add(count)
    if len(counts) != 1:
        raise HeadError(f"the grids have {', '.join(map(str, sorted(counts)))} classes, expected the same number")
    return Heads(decoding, tuple(levels), counts.pop(), background)


def _apart(ends: list[End]) -> list[list[End]]:
    """The levels of one size of grid: several if each number of channels occurs equally often, more than once."""
    by_channels: dict[int, list[End]] = {}
    for end in ends:
        by_channels.setdefault(end.shape[2], []).append(end)
    times = {len(alike) for alike in by_channels.values()}
    if len(by_channels) == 1 or len(times) > 1:
        return [ends]
    return [list(level) for level in zip(*by_channels.values(), strict=True)]


def _recognized(grids: list[list[End]], settings: TaskSettings) -> Decoding:
    """The decoding that the channels show. Raises HeadError."""
    channels = [sorted(end.shape[2] for end in ends) for ends in grids]
    if all(len(each) == 3 and 1 in each and 4 in each for each in channels):
        return "yolox"
    if all(len(each) == 2 for each in channels):
        if settings.anchors:
            return "ssd"
        if all(BINS in each for each in channels):
            return "yolov8"
        raise HeadError(
            f"two convolutions for each grid, {_listed(grids)}, as in SSD: its anchors are needed, --anchors"
        )
    if all(len(each) == 1 for each in channels):
        if any("Pow" in ends[0].passed for ends in grids):
            raise HeadError(
                "squares sizes of boxes as YOLOv5 and YOLOv7 do, which is not supported; expected the decoding of "
                "YOLOX, YOLOv3, YOLOv8 or SSD"
            )
        return "yolov3"
    raise HeadError(f"its last convolutions are {_listed(grids)}")


def _check_settings(decoding: Decoding, settings: TaskSettings, count: int) -> None:
    wants_anchors = decoding in ("yolov3", "ssd")
    if wants_anchors and not settings.anchors:
        raise HeadError(f"decoding {decoding} needs the anchors of its {count} grids, finest first: --anchors")
    if settings.anchors and not wants_anchors:
        raise HeadError(f"decoding {decoding} has no anchors, found --anchors")
    for what, given in (("anchors", settings.anchors), ("strides", settings.strides)):
        if given and len(given) != count:
            raise HeadError(f"has {count} grids, found {what} for {len(given)}")


def _yolox(ends: list[End], stride: tuple[float, float] | None) -> Level:
    """Boxes of 4 channels, objectness of 1, classes: of equal ones in this order."""
    rest = list(ends)
    boxes, objectness = _taken(rest, 4), _taken(rest, 1)
    if boxes is None or objectness is None or len(rest) != 1:
        raise HeadError(f"a grid has {_listed([ends])}, expected boxes of 4 channels, objectness of 1, and classes")
    return Level(boxes, objectness, rest[0], (), stride)


def _yolov8(ends: list[End], stride: tuple[float, float] | None) -> Level:
    rest = list(ends)
    boxes = _taken(rest, BINS)
    if boxes is None or len(rest) != 1:
        raise HeadError(f"a grid has {_listed([ends])}, expected boxes of {BINS} channels, and classes")
    return Level(boxes, None, rest[0], (), stride)


def _yolov3(ends: list[End], anchors: Anchors, stride: tuple[float, float] | None) -> tuple[Level, int]:
    """One convolution of 5 + labels channels for each anchor."""
    channels = ends[0].shape[2]
    if len(ends) != 1 or channels % len(anchors) or channels // len(anchors) < 6:
        raise HeadError(
            f"a grid has {_listed([ends])}, expected one convolution of 5 + labels channels for each of "
            f"{len(anchors)} anchors"
        )
    return Level(ends[0], None, ends[0], anchors, stride, joined=True), channels // len(anchors) - 5


def _ssd(
    ends: list[End], anchors: Anchors, stride: tuple[float, float] | None, settings: TaskSettings
) -> tuple[Level, int, bool]:
    """Boxes of 4 channels for each anchor; classes, with a background if there is one more than labels are given."""
    rest = list(ends)
    boxes = _taken(rest, 4 * len(anchors))
    if boxes is None or len(rest) != 1 or rest[0].shape[2] % len(anchors):
        raise HeadError(
            f"a grid has {_listed([ends])}, expected boxes of {4 * len(anchors)} channels, 4 for each of "
            f"{len(anchors)} anchors, and classes"
        )
    classes, count = rest[0], rest[0].shape[2] // len(anchors)
    if settings.labels is None:
        raise HeadError("labels are needed to know whether the classes have a background: --labels")
    has_background = count == len(settings.labels) + 1
    is_independent = "Sigmoid" in classes.passed
    level = Level(boxes, None, classes, anchors, stride, first_class=int(has_background and is_independent))
    return level, count - has_background, has_background and not is_independent


def _taken(ends: list[End], channels: int) -> End | None:
    """Take the first end of so many channels out of a list, first of all one that is no score."""
    alike = [end for end in ends if end.shape[2] == channels]
    alike.sort(key=lambda end: "Sigmoid" in end.passed)
    if not alike:
        return None
    ends.remove(alike[0])
    return alike[0]


def _listed(grids: Iterable[list[End]]) -> str:
    parts = (f"{end.tensor!r} ({'x'.join(map(str, end.shape))})" for ends in grids for end in ends)
    return ", ".join(list(parts)[:12])
