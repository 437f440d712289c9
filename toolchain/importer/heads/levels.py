"""What the last convolutions of a detection mean: the family that they and the file's decoding show."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from edgemeta.model.tasks import WITH_ANCHORS
from edgemeta.toolchain.importer.heads.ends import End, HeadError
from edgemeta.toolchain.importer.heads.extras import Extras, extras_of, with_names
from edgemeta.toolchain.importer.heads.families import FAMILIES, Family
from edgemeta.toolchain.importer.heads.formula import Formula, Grid, read_formula
from edgemeta.toolchain.importer.heads.layouts import Part, Split, listed
from edgemeta.toolchain.importer.heads.probe import Probe
from edgemeta.toolchain.importer.heads.tail import POST_PROCESS
from edgemeta.toolchain.importer.heads.task_settings import Anchors, TaskSettings
from edgemeta.toolchain.importer.network import Network


@dataclass(frozen=True)
class Level:
    """One grid: its outputs, the anchors of a cell, and its stride in pixels (None: input divided by grid)."""

    boxes: Part | None
    objectness: Part | None
    classes: Part
    anchors: Anchors
    stride: tuple[float, float] | None
    extras: Part | None

    @property
    def parts(self) -> tuple[Part, ...]:
        """Its outputs: boxes, objectness, classes, extras."""
        return tuple(part for part in (self.boxes, self.objectness, self.classes, self.extras) if part)


@dataclass(frozen=True)
class Heads:
    """The levels, from the finest grid to the coarsest; how many labels they tell apart.

    overlap: threshold of the suppression in the file. extras: what its objects have beside boxes. notes: what was
    recognized, and what was left out.
    """

    family: Family
    formula: Formula
    levels: tuple[Level, ...]
    labels: int
    overlap: float | None
    extras: Extras | None
    notes: tuple[str, ...]

    @property
    def tensors(self) -> tuple[str, ...]:
        """The tensors of the file that are read, each once."""
        parts = [part for level in self.levels for part in level.parts]
        names = [end.tensor for part in parts for end in (part.end, part.beside) if end]
        prototypes = self.extras.prototypes if self.extras else None
        return tuple(dict.fromkeys([*names, prototypes] if prototypes else names))


def heads_of(graph: Network, ends: tuple[End, ...], settings: TaskSettings) -> Heads:
    """Recognize the levels of a detection. Raises HeadError."""
    grids: dict[tuple[int, int], list[End]] = {}
    for end in ends:
        grids.setdefault(end.shape[:2], []).append(end)
    finest_first = sorted(grids.values(), key=lambda ends: -ends[0].shape[0] * ends[0].shape[1])
    ordered = [level for ends in finest_first for level in _apart(ends)]
    finder = _Finder(graph, ordered, settings)
    found = finder.by_decoding() or finder.by_ends()
    if found is None:
        raise HeadError(finder.reason())
    family, formula, splits, read = found
    return finder.heads(family, formula, splits, read)


MULTIPLES = ("distances", "linear")
"""Decodings whose numbers are multiples of a side, so that a factor of the file is one of the side."""
_Found: TypeAlias = tuple[Family, Formula, tuple[Split, ...], tuple[Grid, ...]]


class _Finder:
    """Tries the families on the grids of a network. grids: the convolutions of each, the finest first."""

    def __init__(self, graph: Network, grids: list[list[End]], settings: TaskSettings) -> None:
        self.graph, self.grids, self.settings = graph, grids, settings
        self.notes: list[str] = []
        self.probe = Probe(graph, [end for ends in grids for end in ends])

    def by_decoding(self) -> _Found | None:
        """The family whose formula the file computes."""
        for family, splits in self._trials():
            rule = family.rule if family.formula.decoding in WITH_ANCHORS else None
            boxes = splits[0].boxes
            if boxes is None or boxes.beside or (rule is not None and rule(self.probe.image, splits) is None):
                continue
            if not self._scores_fit(family, splits):
                continue
            read = read_formula(self.probe, [split.candidates for split in splits], _wanted(family, splits))
            if read is not None and family.origin in (None, read[0].origin):
                return family, read[0], splits, self._given(read[1], read[0], is_read=True)
        return None

    def by_ends(self) -> _Found | None:
        """The family of a file that ends with its convolutions, or with what the settings say of them."""
        settings, decoding = self.settings, self.settings.decoding
        for family, splits in self._trials():
            is_raw = self._is_raw(family.formula, splits)
            is_possible = is_raw is not False and self._scores_fit(family, splits) and (is_raw or family.is_by_ends)
            if decoding is None and not is_possible:
                continue  # the file decodes in a way that is none of the families', or that cannot be followed
            ruled = family.rule(self.probe.image, splits) if family.rule else None
            if family.rule is not None and ruled is None and decoding is None:
                continue
            if settings.anchors and family.formula.decoding in WITH_ANCHORS:
                if len(settings.anchors) != len(splits):
                    raise HeadError(f"has {len(splits)} grids, found anchors for {len(settings.anchors)}")
                if any(len(each) != split.anchors for each, split in zip(settings.anchors, splits, strict=True)):
                    continue
                strides = [grid.stride for grid in ruled] if ruled else [None] * len(splits)
                ruled = tuple(Grid(*each) for each in zip(settings.anchors, strides, strict=True))
            elif ruled is None and decoding and family.formula.decoding not in WITH_ANCHORS:
                ruled = tuple(Grid((), None) for _ in splits)
            if ruled is not None and (family.is_by_ends or decoding or (settings.anchors and family.takes_anchors)):
                formula = _wanted(family, splits)
                if settings.box_order == "yxhw":
                    formula = replace(formula, box_order="yxhw")
                ruled = tuple(self._scaled(*each, formula) for each in zip(ruled, splits, strict=True))
                if not is_raw:
                    self.notes.append(
                        "what the file makes of its convolutions could not be compared with this decoding"
                    )
                return family, formula, splits, self._given(ruled, formula, is_read=False)
        return None

    def _scaled(self, grid: Grid, split: Split, formula: Formula) -> Grid:
        """The grid with the factor by which a file multiplies distances, as those of SCRFD do."""
        if formula.decoding not in MULTIPLES or split.boxes is None:
            return grid
        factor = self.probe.factor(split.boxes.end, split.candidates.channels[0])
        if factor is None or abs(factor - 1) < 1e-6 or not grid.anchors:
            return grid
        return replace(grid, anchors=tuple((factor * across, factor * down) for across, down in grid.anchors))

    def _trials(self) -> Iterator[tuple[Family, tuple[Split, ...]]]:
        for family in FAMILIES:
            if self.settings.decoding in (None, family.formula.decoding):
                for count in family.counts:
                    found = [family.layout(ends, self.probe, count) for ends in self.grids]
                    splits = tuple(split for split in found if split)
                    lost = [ends for ends, split in zip(self.grids, found, strict=True) if split is None]
                    is_whole = bool(splits) and all(len(ends) < len(splits[0].ends) for ends in lost)
                    if is_whole and len({split.count for split in splits}) == 1:
                        yield family, splits

    def _is_raw(self, formula: Formula, splits: Sequence[Split]) -> bool | None:
        """Whether the outputs have the numbers of boxes, or their multiples; None if they could not be computed."""
        for split in splits:
            if split.boxes is not None:
                end, channels = split.candidates.end, split.candidates.channels[0]
                is_kept = bool(self.probe.kept(end)[list(channels)].any())
                if formula.decoding == "yolov5":  # in which all four are sigmoids first
                    is_kept = is_kept or bool(self.probe.shown(end)[list(channels)].all())
                if formula.decoding in MULTIPLES:
                    is_kept = is_kept or self.probe.factor(end, channels) is not None
                if not is_kept:
                    return False if self.probe.follows(end) else None
        return True

    def _scores_fit(self, family: Family, splits: Sequence[Split]) -> bool:
        """Whether the file has the numbers of objectness and classes, or their sigmoids, where these count."""
        formula = family.formula
        if formula.background or formula.softmax or formula.decoding == "ssd":
            return True
        for part in (splits[0].classes, splits[0].objectness):
            if part is not None:
                channel = part.channels[0] if part.channels else 0
                if not (self.probe.is_score(part.end, channel) or self.probe.kept(part.end)[channel]):
                    return not self.probe.follows(part.end)
        return True

    def _given(self, grids: tuple[Grid, ...], formula: Formula, *, is_read: bool) -> tuple[Grid, ...]:
        """The grids with the anchors and strides of the settings. Raises HeadError where those do not fit."""
        anchors, strides = self.settings.anchors, self.settings.strides
        for what, given in (("anchors", anchors), ("strides", strides)):
            if given and len(given) != len(grids):
                raise HeadError(f"has {len(grids)} grids, found {what} for {len(given)}")
        if anchors and formula.decoding not in WITH_ANCHORS:
            raise HeadError(f"decoding {formula.decoding} has no anchors, found --anchors")
        if anchors and is_read:
            for mine, grid in zip(anchors, grids, strict=True):
                flat = [side for pair in mine for side in pair], [side for pair in grid.anchors for side in pair]
                if len(flat[0]) != len(flat[1]) or any(abs(a - b) > 0.02 * b + 0.5 for a, b in zip(*flat, strict=True)):
                    raise HeadError(f"the file decodes with anchors {_shown(grid.anchors)}, found {_shown(mine)}")
        return (
            tuple(replace(grid, stride=each) for grid, each in zip(grids, strides, strict=True)) if strides else grids
        )

    def heads(self, family: Family, formula: Formula, splits: tuple[Split, ...], grids: tuple[Grid, ...]) -> Heads:
        """The levels of a family. Raises HeadError."""
        count, first, passed = splits[0].count, 0, splits[0].classes.end.passed
        background = formula.background
        if formula.decoding == "ssd":
            has_background = self._has_background(family, splits[0])
            is_shared = "Softmax" in passed or not {"Sigmoid", POST_PROCESS} & passed
            background = has_background and is_shared
            first = int(has_background and not background)
            count -= has_background
        elif background:
            count -= 1
        levels = []
        extras = extras_of(self.probe, self.graph, family.points, splits, grids, self.grids)
        if self.settings.point_names is not None:
            extras = with_names(extras, self.settings.point_names)
        for i, (split, grid) in enumerate(zip(splits, grids, strict=True)):
            classes = split.classes
            if first:
                channels = tuple(a * split.count + i for a in range(split.anchors) for i in range(1, split.count))
                classes = Part(classes.end, channels)
            beside = extras.parts[i] if extras else None
            levels.append(Level(split.boxes, split.objectness, classes, grid.anchors, grid.stride, beside))
        used = {end for split in splits for end in split.ends} | (extras.ends if extras else set())
        left = [end for ends in self.grids for end in ends if end not in used]
        notes = [f"recognized {family.name}: decoding {formula.decoding}", *self.notes]
        if extras:
            notes.append(extras.note)
        if left:
            notes.append(f"left out, as they are neither boxes nor scores: {listed(left)}")
        return Heads(
            family,
            replace(formula, background=background),
            tuple(levels),
            count,
            _overlap(self.graph),
            extras,
            tuple(notes),
        )

    def _has_background(self, family: Family, split: Split) -> bool:
        """Whether class 0 of an SSD is no object. Raises HeadError if nothing says so."""
        labels = self.settings.labels or family.labels
        if labels is not None:
            return split.count == len(labels) + 1
        for node in self.graph.nodes:
            if node.op == POST_PROCESS:
                return split.count == int(node.attributes.get("num_classes", split.count - 1)) + 1
        if "Softmax" in split.classes.end.passed:
            return True
        raise HeadError("labels are needed to know whether the classes have a background: --labels")

    def reason(self) -> str:
        """Why nothing was found, and what would help."""
        settings, counts = self.settings, [len(ends) for ends in self.grids]
        ends = [end for each in self.grids for end in each]
        if settings.decoding in WITH_ANCHORS and not settings.anchors:
            count = len(self.grids)
            return f"decoding {settings.decoding} needs the anchors of its {count} grids, finest first: --anchors"
        if settings.anchors and len(settings.anchors) != len(counts):
            return f"has {len(counts)} grids, found anchors for {len(settings.anchors)}"
        if settings.anchors and set(counts) == {1} and not _is_joined(ends, len(settings.anchors[0])):
            return (
                f"a grid has {listed(ends[:1])}, expected one convolution of 5 + labels channels for each of "
                f"{len(settings.anchors[0])} anchors"
            )
        if not all(self.probe.follows(end) for end in ends):
            return (
                f"what the file makes of {listed(ends)} cannot be followed, to {self.probe.obstacle()}; "
                "--decoding says which decoding it is"
            )
        raw = [end for end in ends if not self._decodes_end(end)]
        if len(raw) < len(ends):
            return (
                f"the file computes boxes of {listed(ends)} in a way that is none of {_names()}; "
                "--decoding says that it is one nevertheless"
            )
        if counts == [1] and "Softmax" in ends[0].passed:
            return f"one map of scores, {listed(ends)}, with more than an eighth of the image's rows: labels of pixels"
        if all(count == 1 for count in counts) and any(_is_joined(ends, anchors) for anchors in range(1, 10)):
            return f"decoding yolov3 needs the anchors of its {len(counts)} grids, finest first: --anchors"
        if all(count == 2 for count in counts) and not settings.anchors:
            return f"two convolutions for each grid, {listed(ends)}, as in SSD: its anchors are needed, --anchors"
        return f"its last convolutions are {listed(ends)}"

    def _decodes_end(self, end: End) -> bool:
        return "Softmax" not in end.passed and not self.probe.shown(end).any() and self.probe.follows(end)


def _wanted(family: Family, splits: Sequence[Split]) -> Formula:
    """The family's formula, with the number of bins that the channels show."""
    split, formula = splits[0], family.formula
    if formula.decoding != "yolov8" or split.boxes is None:
        return formula
    return replace(formula, bins=len(split.candidates.channels[0]) // 4)


def _overlap(graph: Network) -> float | None:
    """The overlap from which on the file's own suppression leaves out an object, if it states one below 1."""
    for node in graph.nodes:
        found = node.attributes.get("nms_iou_threshold", node.attributes.get("iou_threshold"))
        if node.op == "NonMaxSuppression" and len(node.inputs) > 3:
            found = graph.constants.get(node.inputs[3])
        value = np.asarray(found).ravel()
        if value.size == 1 and value.dtype.kind == "f" and 0 < float(value[0]) < 1:
            return round(float(value[0]), 6)
    return None


def _is_joined(ends: Sequence[End], anchors: int) -> bool:
    return all(end.shape[2] % anchors == 0 and end.shape[2] // anchors > 5 for end in ends)


def _names() -> str:
    return ", ".join(family.name for family in FAMILIES)


def _shown(anchors: Anchors) -> str:
    return " ".join(f"{across:g},{down:g}" for across, down in anchors) or "of the strides"


def _apart(ends: list[End]) -> list[list[End]]:
    """The levels of one size of grid: several if each number of channels occurs equally often, more than once."""
    by_channels: dict[int, list[End]] = {}
    for end in ends:
        by_channels.setdefault(end.shape[2], []).append(end)
    times = {len(alike) for alike in by_channels.values()}
    if len(by_channels) == 1 or len(times) > 1:
        return [ends]
    return [list(level) for level in zip(*by_channels.values(), strict=True)]
