"""Where objects will be: a Kalman filter of constant velocity in integers, for many objects at once.

Each coordinate of a box's centre is a position with a velocity that changes at random (white noise of acceleration;
Bar-Shalom, Li and Kirubarajan 2001, section 6.2). The uncertainty of a detection's position is taken as a fixed share
of the box's size, so that only ratios of variances matter: they are in units of a detection's variance, one set for
both coordinates. Time between frames may vary. Everything is a 64-bit integer; products stay below 2**62.
"""

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]

ONE = 1 << 16
"""1 as a variance or a gain."""
PART = 1 << 8
"""Positions and velocities are multiples of 1/PART of a box's unit."""
SECOND = 1000
"""Times are in milliseconds, velocities and variances per second."""

DRIFT = 40 * ONE
"""How fast the variance of a velocity grows, per second: in one second by about a third of a box's height per second.

A detection's standard deviation is taken as a twentieth of the height, as by SORT's successors."""
FIRST_VELOCITY = 400 * ONE
"""Variance of the velocity of a new object: one height per second."""
LONGEST = 10 * SECOND
"""Greatest time that is predicted over."""

AHEAD = 1 * SECOND
"""Greatest time over which an object is expected to go on; then it is expected to wait there, as people do."""

_CENTRE, _SIZE, _VELOCITY = slice(0, 2), slice(2, 4), slice(4, 6)
_PP, _PV, _VV, _TIME, _COLUMNS = 6, 7, 8, 9, 10


class Motion:
    """The motion of n objects, one in each row."""

    def __init__(self) -> None:
        self._rows: Integers = np.empty((0, _COLUMNS), np.int64)

    def add(self, boxes: Integers, time_ms: int) -> None:
        """Append objects at rest. boxes: [n, 4] x0, y0, x1, y1, each below 2**24."""
        new = np.zeros((len(boxes), _COLUMNS), np.int64)
        new[:, _CENTRE], new[:, _SIZE] = _twice_centres(boxes) * PART, (boxes[:, 2:] - boxes[:, :2]) * PART
        new[:, _PP], new[:, _VV], new[:, _TIME] = ONE, FIRST_VELOCITY, time_ms
        self._rows = np.concatenate([self._rows, new])

    def keep(self, rows: list[int]) -> None:
        """Keep only these objects, in this order."""
        self._rows = self._rows[rows]

    def boxes(self, time_ms: int) -> Integers:
        """The boxes [n, 4] that are expected at a time, none before its object's last correction."""
        rows, passed = self._rows, np.clip(time_ms - self._rows[:, _TIME], 0, AHEAD)
        twice = (rows[:, _CENTRE] + rows[:, _VELOCITY] * passed[:, np.newaxis] // SECOND) // PART
        size = np.maximum(rows[:, _SIZE] // PART, 1)
        first = (twice - size) >> 1
        return np.concatenate([first, first + size], axis=1)

    def correct(self, rows: list[int], boxes: Integers, time_ms: int) -> None:
        """Tell where the objects in these rows are at a time. boxes: [n, 4]."""
        if not rows:
            return
        state = self._rows[rows]
        passed = np.clip(time_ms - state[:, _TIME], 0, LONGEST)
        pp, pv, vv = state[:, _PP], state[:, _PV], state[:, _VV]
        # F P F' + Q of the time that has passed; products are divided step by step, so that none overflows.
        moved = vv * passed // SECOND
        noise = DRIFT * passed // SECOND
        pp = pp + (2 * pv + moved) * passed // SECOND + noise * passed // (2 * SECOND) * passed * 2 // (3 * SECOND)
        pv = pv + moved + noise * passed // (2 * SECOND)
        vv = vv + noise
        gain, velocity_gain = (pp << 16) // (pp + ONE), (pv << 16) // (pp + ONE)
        expected = state[:, _CENTRE] + state[:, _VELOCITY] * passed[:, np.newaxis] // SECOND
        surprise = _twice_centres(boxes) * PART - expected
        size_surprise = (boxes[:, 2:] - boxes[:, :2]) * PART - state[:, _SIZE]
        state[:, _CENTRE] = expected + _scaled(gain, surprise)
        state[:, _VELOCITY] += _scaled(velocity_gain, surprise)
        state[:, _SIZE] += _scaled(gain, size_surprise)
        state[:, _PP] = gain  # P / (P + 1) of a detection's variance: what remains
        state[:, _PV] = velocity_gain
        state[:, _VV] = np.maximum(vv - ((velocity_gain * pv) >> 16), 0)
        state[:, _TIME] = time_ms
        self._rows[rows] = state


def _twice_centres(boxes: Integers) -> Integers:
    return boxes[:, :2] + boxes[:, 2:]


def _scaled(gain: Integers, values: Integers) -> Integers:
    """Values [n, 2] times gains [n], to the nearest."""
    scaled: Integers = (gain[:, np.newaxis] * values + ONE // 2) >> 16
    return scaled
