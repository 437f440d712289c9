"""Reads the formula of a decoding, and its constants, from what a file makes of numbers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from edgemeta.model.tasks import WITH_ANCHORS, Decoding, Detection
from edgemeta.tasks.detection.boxes import Cells, decode
from edgemeta.tasks.numbers import Float64
from edgemeta.toolchain.importer.heads.ends import End
from edgemeta.toolchain.importer.heads.probe import Probe, Response
from edgemeta.toolchain.importer.heads.task_settings import Anchors


@dataclass(frozen=True)
class Formula:
    """How numbers become boxes and scores: the fields of `edgemeta.model.tasks.Detection` with these names."""

    decoding: Decoding
    background: bool = False
    box_order: Literal["xywh", "yxhw"] = "xywh"
    bins: int = 16
    origin: float = 0.5
    variances: tuple[float, float] = (0.1, 0.2)
    softmax: bool = False
    powers: tuple[float, float] = (1.0, 1.0)


@dataclass(frozen=True)
class Candidates:
    """The box numbers of one grid: channels of each of its anchors."""

    end: End
    channels: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Grid:
    """What was read of one grid. anchors: empty where it is the stride; stride: None where it is image / grid."""

    anchors: Anchors
    stride: tuple[float, float] | None


@dataclass(frozen=True)
class _Box:
    """Centre and size, float64 [2] each, x before y, in pixels."""

    centre: Float64
    size: Float64


@dataclass(frozen=True)
class _Form:
    """How a tensor states a box."""

    is_corners: bool
    is_y_first: bool
    is_share: bool

    def box(self, four: Float64, image: tuple[int, int]) -> _Box:
        pairs = four.reshape(2, 2)[:, ::-1] if self.is_y_first else four.reshape(2, 2)
        if self.is_share:
            pairs = pairs * np.array(image[::-1])
        first, second = pairs
        return _Box((first + second) / 2, second - first) if self.is_corners else _Box(first, second)


_FORMS = [_Form(a, b, c) for c in (False, True) for b in (False, True) for a in (False, True)]


def read_formula(probe: Probe, grids: Sequence[Candidates], wanted: Formula) -> tuple[Formula, tuple[Grid, ...]] | None:
    """The formula with the file's constants, and what it says of each grid; None if the file decodes in another way.

    wanted: its `decoding` and `bins` count, the rest is read.
    """
    order = wanted.box_order
    formula: Formula | None = None
    read = []
    for grid in grids:
        found = _grid(probe, grid, replace(formula or wanted), is_known=formula is not None)
        if found is None:
            break
        formula, one = found
        read.append(one)
    if formula is not None and len(read) == len(grids):
        return formula, tuple(read)
    if order == "xywh" and wanted.decoding in ("ssd", "linear"):
        return read_formula(probe, grids, replace(wanted, box_order="yxhw"))
    return None


def _grid(probe: Probe, grid: Candidates, wanted: Formula, *, is_known: bool) -> tuple[Formula, Grid] | None:
    height, width, _ = grid.end.shape
    first, second = (height // 4, width // 2), (3 * height // 4, width // 4)  # rows and columns differ in each
    for form, one in _forms(probe, grid.end, first, grid.channels[0]):
        other = next((each for its, each in _forms(probe, grid.end, second, grid.channels[0]) if its == form), None)
        if other is None:
            continue
        stride, is_possible = _stride(probe, grid.end, first, second, form, one, other)
        if not is_possible:
            continue
        boxes = [one]
        for channels in grid.channels[1:]:
            found = next((each for its, each in _forms(probe, grid.end, first, channels) if its == form), None)
            if found is None:
                break
            boxes.append(found)
        if len(boxes) < len(grid.channels):
            continue
        place = np.array(first[::-1], np.float64)
        formula = wanted if is_known else _constants(probe, wanted, form, one, place, stride)
        if formula is None:
            continue
        anchors = [_anchor(probe, formula, form, each, stride) for each in boxes]
        cases = [
            *zip(boxes, [place] * len(boxes), anchors, strict=True),
            (other, np.array(second[::-1], np.float64), anchors[0]),
        ]
        if all(_agrees(probe, formula, form, *case, stride) for case in cases):
            return formula, _described(probe, grid.end, formula, anchors, stride)
    return None


def _forms(probe: Probe, end: End, cell: tuple[int, int], channels: Sequence[int]) -> Iterator[tuple[_Form, Response]]:
    for response in probe.responses(end, cell, channels):
        for form in _FORMS:
            yield form, response


def _stride(
    probe: Probe, end: End, first: tuple[int, int], second: tuple[int, int], form: _Form, one: Response, other: Response
) -> tuple[Float64, bool]:
    """Pixels (x, y) from one cell to the next, of a single row or column the image's; whether they may be so many."""
    height, width, _ = end.shape
    whole = np.array([probe.image[1] / width, probe.image[0] / height])
    apart = form.box(other.zero, probe.image).centre - form.box(one.zero, probe.image).centre
    steps = np.array([second[1] - first[1], second[0] - first[0]])
    measured = np.where(steps, apart / np.where(steps, steps, 1), whole)
    is_whole = np.abs(measured / whole - 1) < (0.06 if probe.is_rounded else 1e-3)
    return np.where(is_whole, whole, measured), bool((np.abs(measured / whole - 1) < 0.5).all())


def _constants(
    probe: Probe, wanted: Formula, form: _Form, one: Response, place: Float64, stride: Float64
) -> Formula | None:
    """The formula with the origin and variances that a candidate shows; None if it shows none."""
    zero, found = form.box(one.zero, probe.image), form.box(one.found, probe.image)
    if not (np.isfinite(zero.centre).all() and np.isfinite(found.size).all() and (stride > 0).all()):
        return None
    with np.errstate(all="ignore"):
        origin = float(np.mean(zero.centre / stride - place))
        formula = replace(wanted, origin=_near(origin, probe, (0.0, 0.5)))
        if wanted.decoding == "ssd":
            numbers = one.numbers[[1, 0, 3, 2]] if wanted.box_order == "yxhw" else one.numbers
            if not (zero.size > 0).all() or not (found.size > 0).all():
                return None
            near = float(np.mean((found.centre - zero.centre) / (numbers[:2] * zero.size)))
            far = float(np.mean(np.log(found.size / zero.size) / numbers[2:]))
            formula = replace(formula, variances=(_near(near, probe, (1.0, 0.1)), _near(far, probe, (1.0, 0.2))))
    numbers_are_fine = all(np.isfinite([formula.origin, *formula.variances])) and min(formula.variances) > 0
    uses_origin = wanted.decoding in ("yolov8", "distances", "exponential", "ssd", "linear")
    if not numbers_are_fine or (uses_origin and not 0 <= formula.origin <= 1):
        return None
    return formula if uses_origin else replace(formula, origin=0.5)


def _near(value: float, probe: Probe, usual: Sequence[float]) -> float:
    """One of the usual values that is near, otherwise the value with six digits."""
    near = 0.2 * usual[-1] if probe.is_rounded else 1e-4
    return next((each for each in usual if abs(value - each) <= near), _short(value))


def _short(value: float) -> float:
    return float(f"{float(value):.6g}")


def _anchor(probe: Probe, formula: Formula, form: _Form, one: Response, stride: Float64) -> Float64:
    """The sides (x, y) by which a decoding measures."""
    zero, found = form.box(one.zero, probe.image), form.box(one.found, probe.image)
    numbers = one.numbers[[1, 0, 3, 2]] if formula.box_order == "yxhw" else one.numbers
    with np.errstate(all="ignore"):
        match formula.decoding:
            case "yolov8":
                sides = zero.size / (formula.bins - 1)
            case "exponential":
                sides = zero.size / 2
            case "distances":
                sides = (found.size - zero.size) / (numbers[:2] + numbers[2:])
            case "linear":
                sides = (found.size - zero.size) / numbers[2:]
            case "fastestdet":
                sides = 2 * zero.size
            case _:
                sides = zero.size
    near = np.abs(sides / stride - 1) < (0.06 if probe.is_rounded else 1e-3)
    return np.where(near, stride, sides) if formula.decoding not in WITH_ANCHORS else sides


def _agrees(
    probe: Probe, formula: Formula, form: _Form, one: Response, place: Float64, anchor: Float64, stride: Float64
) -> bool:
    """Whether `edgemeta` decodes a candidate as the file does."""
    if not (np.isfinite(anchor).all() and (anchor > 0).all()):
        return False
    task = Detection((), levels=(), **vars(formula))
    cell = Cells(place[np.newaxis], stride[np.newaxis], anchor[np.newaxis])
    found = form.box(one.found, probe.image)
    wanted = np.concatenate([found.centre - found.size / 2, found.centre + found.size / 2])
    ours = decode(task, one.numbers[np.newaxis], cell)[0]
    size = np.abs(ours[2:] - ours[:2]).max()
    allowed = 0.02 * max(probe.image) if probe.is_rounded else 1e-4 * max(size, stride.max())
    return bool(np.abs(ours - wanted).max() <= allowed)


def _described(probe: Probe, end: End, formula: Formula, anchors: list[Float64], stride: Float64) -> Grid:
    height, width, _ = end.shape
    is_whole = np.allclose(stride, [probe.image[1] / width, probe.image[0] / height])
    pairs = tuple((_short(across), _short(down)) for across, down in anchors)
    is_stride = len(anchors) == 1 and formula.decoding not in WITH_ANCHORS and bool((anchors[0] == stride).all())
    across, down = stride.tolist()
    return Grid(() if is_stride else pairs, None if is_whole else (_short(across), _short(down)))
