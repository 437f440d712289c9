"""Which of the last convolutions of a grid are boxes, objectness and classes."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from edgemeta.toolchain.importer.heads.ends import End
from edgemeta.toolchain.importer.heads.formula import Candidates
from edgemeta.toolchain.importer.heads.probe import Probe


@dataclass(frozen=True)
class Part:
    """Output channels of a convolution, one after the other for each anchor; None: all of them.

    beside: another convolution, whose channels follow those of the first.
    """

    end: End
    channels: tuple[int, ...] | None = None
    beside: End | None = None


@dataclass(frozen=True)
class Split:
    """One grid. anchors: how many candidates a cell has. classes: numbers of each, a background among them.

    extras: what follows the boxes in their convolution.
    """

    boxes: Part | None
    objectness: Part | None
    classes: Part
    anchors: int
    count: int
    extras: Part | None = None

    @property
    def ends(self) -> tuple[End, ...]:
        """Its convolutions, each once."""
        parts = [part for part in (self.boxes, self.objectness, self.classes) if part]
        return tuple(dict.fromkeys(end for part in parts for end in (part.end, part.beside) if end))

    @property
    def candidates(self) -> Candidates:
        """Where the box numbers of each anchor are."""
        assert self.boxes is not None
        channels = self.boxes.channels or tuple(range(self.boxes.end.shape[2]))
        width = len(channels) // self.anchors
        return Candidates(self.boxes.end, tuple(channels[i * width : (i + 1) * width] for i in range(self.anchors)))


Layout: TypeAlias = Callable[[list[End], Probe, int], Split | None]
"""From the convolutions of a grid and a number of anchors or bins that is tried (0: any) to what they mean."""


def gated(ends: list[End], probe: Probe, _: int) -> Split | None:
    """Boxes of 4 channels, objectness of 1, classes; of equal ones in this order."""
    rest = list(ends)
    boxes, objectness = _taken(rest, 4), _taken(rest, 1)
    classes = _classes(rest, probe) if boxes and objectness else None
    if boxes is None or objectness is None or classes is None:
        return None
    return Split(Part(boxes), Part(objectness), Part(classes), 1, classes.shape[2])


def faces(ends: list[End], probe: Probe, _: int) -> Split | None:
    """As `gated`, with one class and the numbers of five keypoints beside it."""
    split = gated(ends, probe, 0) if sorted(end.shape[2] for end in ends) == [1, 1, 4, 10] else None
    return split if split and split.count == 1 else None


def pairs(bins: int) -> Layout:
    """Boxes of 4 * bins channels, classes."""

    def layout(ends: list[End], probe: Probe, _: int) -> Split | None:
        rest = list(ends)
        boxes = _taken(rest, 4 * bins)
        if len(rest) > 1 and not any({"Sigmoid", "Softmax"} & end.passed for end in rest):
            rest = [end for end in rest if end.shape[2] != probe.prototypes]
        classes = _classes(rest, probe) if boxes else None
        return Split(Part(boxes), None, Part(classes), 1, classes.shape[2]) if boxes and classes else None

    return layout


def any_pairs(ends: list[End], probe: Probe, bins: int) -> Split | None:
    """Boxes of 4 * bins channels, a softmax behind them, and classes."""
    rest = [end for end in ends if "Softmax" in end.passed]
    boxes = next((end for end in rest if end.shape[2] == 4 * bins), None)
    classes = _classes([end for end in ends if end is not boxes], probe) if boxes else None
    return Split(Part(boxes), None, Part(classes), 1, classes.shape[2]) if boxes and classes else None


def several(ends: list[End], probe: Probe, anchors: int) -> Split | None:
    """Boxes of 4 channels for each anchor, and classes for each anchor."""
    rest = list(ends)
    if anchors:
        boxes = _taken(rest, 4 * anchors)
    else:
        plain = [end for end in rest if not {"Sigmoid", "Softmax"} & end.passed and end.shape[2] % 4 == 0]
        boxes = next((end for end in plain if all(each.shape[2] % (end.shape[2] // 4) == 0 for each in rest)), None)
        rest = [end for end in rest if end is not boxes]
    classes = _classes(rest, probe) if boxes else None
    if boxes is None or classes is None or classes.shape[2] % (count := boxes.shape[2] // 4):
        return None
    return Split(Part(boxes), None, Part(classes), count, classes.shape[2] // count)


def joined(ends: list[End], _: Probe, anchors: int) -> Split | None:
    """One convolution of 5 + labels channels for each anchor: box, objectness, classes."""
    if len(ends) != 1 or not anchors or ends[0].shape[2] % anchors or ends[0].shape[2] // anchors < 6:
        return None
    width = ends[0].shape[2] // anchors
    starts = range(0, width * anchors, width)
    boxes, objectness, classes = (
        Part(ends[0], tuple(start + i for start in starts for i in range(first, last)))
        for first, last in ((0, 4), (4, 5), (5, width))
    )
    return Split(boxes, objectness, classes, anchors, width - 5)


def few_bins(bins: int, joins: bool | None) -> Layout:
    """4 * bins channels of boxes behind the classes in one convolution, or in one of its own.

    joins: whether the file concatenates scores and numbers of boxes; None: either. What the file does not decode must
    be in its outputs as it is.
    """

    def layout(ends: list[End], probe: Probe, _: int) -> Split | None:
        if joins is not None and joins != bool({"Concat", "CONCATENATION"} & ends[0].passed):
            return None
        if len(ends) == 2:
            split = pairs(bins)(ends, probe, 0)
            return split if split and probe.is_score(split.classes.end) else None
        count = ends[0].shape[2] - 4 * bins
        kept = probe.kept(ends[0]).tolist()
        if len(ends) != 1 or count < 1 or (any(kept) and kept != [False] * count + [True] * 4 * bins):
            return None
        boxes = Part(ends[0], tuple(range(count, len(kept))))
        return Split(boxes, None, Part(ends[0], tuple(range(count))), 1, count)

    return layout


def keypoints_too(width: int) -> Layout:
    """Box and keypoints of each anchor in one convolution, `width` channels for each; one score for each anchor."""

    def layout(ends: list[End], _: Probe, __: int) -> Split | None:
        if len(ends) != 2:
            return None
        classes, boxes = sorted(ends, key=lambda end: end.shape[2])
        anchors = classes.shape[2]
        if boxes.shape[2] != width * anchors:
            return None
        four, rest = (
            Part(boxes, tuple(width * anchor + i for anchor in range(anchors) for i in some))
            for some in (range(4), range(4, width))
        )
        return Split(four, None, Part(classes), anchors, 1, rest)

    return layout


def beside_keypoints(ends: list[End], probe: Probe, _: int) -> Split | None:
    """Boxes of 4 and one score for each of some anchors, perhaps 10 numbers of keypoints, each in a convolution."""
    rest = sorted(ends, key=lambda end: end.shape[2])
    count = rest[0].shape[2]
    if [end.shape[2] for end in rest] not in ([count, 4 * count, 10 * count], [count, 4 * count]) or count > 3:
        return None
    return Split(Part(rest[1]), None, Part(rest[0]), count, 1) if probe.is_score(rest[0]) else None


def retina_faces(ends: list[End], probe: Probe, _: int) -> Split | None:
    """Boxes of 4, background and face, and 10 numbers of keypoints for each of two anchors."""
    split = several(ends, probe, 2)
    is_fine = split is not None and split.count == 2 and sorted(end.shape[2] for end in ends) == [4, 8, 20]
    return split if is_fine else None


def shared_classes(ends: list[End], _: Probe, __: int) -> Split | None:
    """Boxes of 4 and objectness of 1 for each of 3 anchors, and classes that the anchors of a cell share."""
    boxes = next((end for end in ends if end.shape[2] == 12), None)
    objectness = next((end for end in ends if end.shape[2] == 3), None)
    classes = [end for end in ends if end is not boxes and end is not objectness]
    if boxes is None or objectness is None or len(classes) != 1 or "Softmax" not in classes[0].passed:
        return None
    count = classes[0].shape[2]
    return Split(Part(boxes), Part(objectness), Part(classes[0], tuple(range(count)) * 3), 3, count)


def gated_softmax(ends: list[End], probe: Probe, _: int) -> Split | None:
    """As `gated`, the classes with a softmax behind them."""
    split = gated(ends, probe, 0)
    return split if split and "Softmax" in split.classes.end.passed else None


def centres(extra: int) -> Layout:
    """A map of scores in a grid of 4 pixels, sizes and shifts of 2 channels each in this order, and `extra` others."""

    def layout(ends: list[End], probe: Probe, _: int) -> Split | None:
        pairs_ = [end for end in ends if end.shape[2] == 2 and not probe.is_score(end)]
        rest = [end for end in ends if end not in pairs_ and end.shape[2] != extra]
        is_fine = ends[0].shape[0] == -(-probe.image[0] // 4) and len(ends) == 3 + bool(extra)
        if not is_fine or len(pairs_) != 2 or len(rest) != 1:
            return None
        size, shift = pairs_
        return Split(Part(shift, beside=size), None, Part(rest[0]), 1, rest[0].shape[2])

    return layout


def map_of_scores(ends: list[End], probe: Probe, _: int) -> Split | None:
    """One map with a softmax behind it, of at most an eighth of the image's rows and columns."""
    if len(ends) != 1 or "Softmax" not in ends[0].passed or ends[0].shape[2] < 2:
        return None
    height, width, count = ends[0].shape
    is_coarse = height * 8 <= probe.image[0] and width * 8 <= probe.image[1]
    return Split(None, None, Part(ends[0]), 1, count) if is_coarse else None


def _classes(ends: list[End], probe: Probe) -> End | None:
    """The classes among what is left of a grid: the only convolution, or the only one whose numbers become scores."""
    if len(ends) < 2:
        return ends[0] if ends else None
    scored = [end for end in ends if {"Sigmoid", "Softmax"} & end.passed]
    if len({end.shape[2] for end in scored}) > 1:
        scored = [end for end in scored if probe.is_score(end)]
    return scored[0] if len({end.shape[2] for end in scored}) == 1 else None


def _taken(ends: list[End], channels: int) -> End | None:
    """Take the first end of so many channels out of a list, first of all one that is no score."""
    alike = [end for end in ends if end.shape[2] == channels]
    alike.sort(key=lambda end: "Sigmoid" in end.passed)
    if not alike:
        return None
    ends.remove(alike[0])
    return alike[0]


def listed(ends: Iterable[End]) -> str:
    """Convolutions for people: name and shape of each, at most 12."""
    parts = (f"{end.tensor!r} ({'x'.join(map(str, end.shape))})" for end in ends)
    return ", ".join(list(parts)[:12])
