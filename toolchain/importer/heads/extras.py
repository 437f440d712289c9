"""What a detection has beside boxes and scores: points, as the file or its family decodes them, or masks."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, product
from typing import Literal

import numpy as np

from edgemeta.model.tasks import ObjectPoints
from edgemeta.tasks.numbers import Float64, sigmoid
from edgemeta.toolchain.importer.heads.ends import End, HeadError
from edgemeta.toolchain.importer.heads.formula import Grid
from edgemeta.toolchain.importer.heads.layouts import Part, Split
from edgemeta.toolchain.importer.heads.points import named
from edgemeta.toolchain.importer.heads.probe import Probe, Response
from edgemeta.toolchain.importer.network import Network


@dataclass(frozen=True)
class Extras:
    """parts: of each level. points: what they are, or prototypes: the tensor of those of masks."""

    parts: tuple[Part, ...]
    points: ObjectPoints | None = None
    prototypes: str | None = None
    of_prototypes: End | None = None

    @property
    def ends(self) -> set[End]:
        """The convolutions that are read."""
        return {part.end for part in self.parts} | ({self.of_prototypes} if self.of_prototypes else set())

    @property
    def note(self) -> str:
        """What was recognized."""
        if self.points is None:
            return f"its objects have masks, of the prototypes {self.prototypes!r}"
        return f"its objects have {len(self.points.names)} points: {', '.join(self.points.names)}"


def extras_of(
    probe: Probe,
    graph: Network,
    wanted: ObjectPoints | None,
    splits: Sequence[Split],
    grids: Sequence[Grid],
    every: Sequence[Sequence[End]],
) -> Extras | None:
    """What of each grid is neither box nor score, if it has a meaning that the file shows.

    wanted: what the family says of points that a file leaves as they are. every: the convolutions of each grid, those
    of no boxes among them.
    """
    ends = [next(some for some in every if split.classes.end in some) for split in splits]
    parts = [split.extras or _left(split, some) for split, some in zip(splits, ends, strict=True)]
    candidates = [_channels(part, split.anchors) for part, split in zip(parts, splits, strict=True) if part]
    widths = {len(each) for some in candidates for each in some}
    if len(candidates) < len(splits) or len(widths) != 1:
        return None
    found = tuple(part for part in parts if part)
    (width,) = widths
    with np.errstate(all="ignore"):  # a file may compute anything
        read = _Reader(probe, grids, found, candidates).points(width)
    if read is not None:
        return Extras(found, read)
    for part, some in zip(found, candidates, strict=True):
        if not probe.kept(part.end)[list(chain(*some))].all() and probe.follows(part.end):
            return None
    if wanted is not None:
        return Extras(found, wanted) if width == len(wanted.names) * len(wanted.layout) else None
    return _masks(graph, width, found, [end for some in every for end in some])


def with_names(extras: Extras | None, names: tuple[str, ...]) -> Extras:
    """The extras with other names of their points. Raises HeadError where these do not fit."""
    count = len(extras.points.names) if extras is not None and extras.points is not None else 0
    if extras is None or extras.points is None or count != len(names):
        raise HeadError(f"its objects have {count} points, found {len(names)} names for them (--point-names)")
    return replace(extras, points=replace(extras.points, names=names))


def _left(split: Split, ends: Sequence[End]) -> Part | None:
    """The only convolution of a grid that is neither boxes nor scores."""
    rest = [end for end in ends if end not in split.ends]
    return Part(rest[0]) if len(rest) == 1 and rest[0].shape[2] % split.anchors == 0 else None


def _channels(part: Part, anchors: int) -> list[tuple[int, ...]]:
    """The channels of each anchor."""
    channels = part.channels or tuple(range(part.end.shape[2]))
    width = len(channels) // anchors
    return [channels[i * width : (i + 1) * width] for i in range(anchors)]


def _masks(graph: Network, width: int, parts: tuple[Part, ...], ends: Sequence[End]) -> Extras | None:
    """Masks, if one output is a map of so many channels, of a grid at least as fine as that of the finest boxes."""
    found = []
    for name in graph.outputs:
        _, *sides = graph.shapes.get(name, ())
        if len(sides) == 3 and width in (sides[0], sides[2]):
            height, across = sides[1:] if sides[0] == width else sides[:2]
            made = [end for end in ends if end.shape == (height, across, width) and Part(end) not in parts]
            if len(made) == 1 and height >= parts[0].end.shape[0] and across >= parts[0].end.shape[1]:
                found.append(Extras(parts, prototypes=name, of_prototypes=made[0]))
    return found[0] if len(found) == 1 else None


class _Reader:
    """Reads how a file decodes points. parts, candidates: channels of each anchor, of each grid."""

    def __init__(
        self, probe: Probe, grids: Sequence[Grid], parts: Sequence[Part], candidates: Sequence[list[tuple[int, ...]]]
    ) -> None:
        self._probe, self._grids, self._parts, self._candidates = probe, grids, parts, candidates
        self._allowed = (0.02 * max(probe.image), 0.02) if probe.is_rounded else (1e-4 * max(probe.image), 1e-6)

    def points(self, width: int) -> ObjectPoints | None:
        """Points of so many numbers whose formula is what the file computes of all grids and anchors, in two cells."""
        layouts: tuple[Literal["xys", "xy"], ...] = ("xys", "xy")
        units: tuple[Literal["stride", "anchor"], ...] = ("stride", "anchor")
        pixels = np.array(self._probe.image[::-1], np.float64)
        for layout, unit, side in product(layouts, units, (np.ones(2), pixels)):
            count, rest = divmod(width, len(layout))
            if count and not rest:
                found = self._formula(ObjectPoints(named(count), layout, unit=unit), side)
                if found is not None:
                    return found
        return None

    def _formula(self, wanted: ObjectPoints, side: Float64) -> ObjectPoints | None:
        """The points with the origin and factor of the first candidate, if all others agree.

        side: pixels of one unit of the file's points.
        """
        known: ObjectPoints | None = None
        for part, grid, every in zip(self._parts, self._grids, self._candidates, strict=True):
            height, width, _ = part.end.shape
            stride = np.array(grid.stride or (self._probe.image[1] / width, self._probe.image[0] / height))
            for anchor, channels in enumerate(every):
                unit = np.array(grid.anchors[anchor]) if wanted.unit == "anchor" and grid.anchors else stride
                for cell in ((height // 4, width // 2), (3 * height // 4, width // 4)):
                    place = np.array(cell[::-1], np.float64)
                    responses = self._probe.responses(part.end, cell, channels, len(channels))
                    given = known
                    known = None
                    for each in responses:
                        meant = given or self._shown(wanted, each, side, place, stride, unit)
                        if meant is not None and self._agrees(meant, each, side, place, stride, unit):
                            known = meant
                            break
                    if known is None:
                        return None
        return known

    def _shown(
        self, wanted: ObjectPoints, response: Response, side: Float64, place: Float64, stride: Float64, unit: Float64
    ) -> ObjectPoints | None:
        """The points with the origin and factor that a response shows; None where they cannot be those of points."""
        numbers, zero, found = (each.reshape(-1, len(wanted.layout))[:, :2] for each in _of(response))
        origin = float(np.mean(zero * side / stride - place))
        factor = float(np.median((found - zero) * side / (numbers * unit)))
        is_possible = -1e-3 <= origin <= 1 and 1e-3 <= factor <= 1e3
        return replace(wanted, origin=self._near(origin), factor=self._near(factor)) if is_possible else None

    def _agrees(
        self, meant: ObjectPoints, response: Response, side: Float64, place: Float64, stride: Float64, unit: Float64
    ) -> bool:
        """Whether `edgemeta` decodes the points as the file does."""
        numbers, _, found = (each.reshape(-1, len(meant.layout)) for each in _of(response))
        ours = (place + meant.origin) * stride + meant.factor * numbers[:, :2] * unit
        pixels, scores = self._allowed
        off = np.abs(found[:, 2:] - sigmoid(numbers[:, 2:])).max(initial=0.0)
        return bool(np.abs(ours - found[:, :2] * side).max() <= pixels and off <= scores)

    def _near(self, value: float) -> float:
        """A usual value that is near, otherwise the value with six digits."""
        near = 0.05 if self._probe.is_rounded else 1e-4
        return next((each for each in (0.0, 0.1, 0.5, 1.0, 2.0) if abs(value - each) <= near), float(f"{value:.6g}"))


def _of(response: Response) -> tuple[Float64, Float64, Float64]:
    return response.numbers, response.zero, response.found
