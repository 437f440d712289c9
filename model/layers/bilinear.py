"""Where the elements of a bilinear resize lie between the elements of its input, exactly: `resize.ResizeBilinear`."""

from dataclasses import dataclass
from fractions import Fraction
from math import floor

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.layers.types import Coordinates

BILINEAR_BITS = 11
"""A weight is a multiple of 2**-11: a sum of four products of 255 and two weights stays below 2**30."""


@dataclass(frozen=True, eq=False)
class BilinearAxis:
    """Of every output position: its two neighbours, and the weight of the upper one, all int64 [H'].

    weight: 0 .. 2**11; the lower neighbour has the rest of 2**11.
    """

    lower: NDArray[np.int64]
    upper: NDArray[np.int64]
    weight: NDArray[np.int64]


def bilinear_axis(source: int, target: int, coordinates: Coordinates) -> BilinearAxis:
    """The neighbours of `target` positions among `source` elements."""
    places = bilinear_places(source, target, coordinates)
    lower = np.array([floor(place) for place in places], np.int64)
    weight = [floor((place - floor(place)) * (1 << BILINEAR_BITS) + Fraction(1, 2)) for place in places]
    return BilinearAxis(lower, np.minimum(lower + 1, source - 1), np.array(weight, np.int64))


def bilinear_places(source: int, target: int, coordinates: Coordinates) -> list[Fraction]:
    """Where each of `target` positions lies among `source` elements, exactly, 0 .. source - 1."""
    places = [_place(i, source, target, coordinates) for i in range(target)]
    return [min(max(place, Fraction(0)), Fraction(source - 1)) for place in places]


def _place(i: int, source: int, target: int, coordinates: Coordinates) -> Fraction:
    match coordinates:
        case "half_pixel":
            return Fraction((2 * i + 1) * source - target, 2 * target)
        case "align_corners":
            return Fraction(i * (source - 1), max(target - 1, 1))
        case "asymmetric":
            return Fraction(i * source, target)
