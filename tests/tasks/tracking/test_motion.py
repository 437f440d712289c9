"""The filter in integers, compared with the same filter in float64; and what it says of simple motions."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from edgemeta.tasks.tracking.motion import AHEAD, DRIFT, FIRST_VELOCITY, LONGEST, ONE, Motion


class FloatFilter:
    """One coordinate of a centre, doubled, by the textbook: F P F' + Q, then a measurement of variance 1."""

    def __init__(self, place: float) -> None:
        self.state, self.covariance = np.array([place, 0.0]), np.diag([1.0, FIRST_VELOCITY / ONE])

    def correct(self, place: float, seconds: float) -> None:
        step = np.array([[1, seconds], [0, 1]])
        noise = np.array([[seconds**3 / 3, seconds**2 / 2], [seconds**2 / 2, seconds]]) * DRIFT / ONE
        self.state = step @ self.state
        self.covariance = step @ self.covariance @ step.T + noise
        gain = self.covariance[:, 0] / (self.covariance[0, 0] + 1)
        self.state = self.state + gain * (place - self.state[0])
        self.covariance = self.covariance - np.outer(gain, self.covariance[0])


def box(x: int, y: int, width: int = 320, height: int = 800) -> list[int]:
    return [x, y, x + width, y + height]


@given(
    st.lists(st.tuples(st.integers(1, LONGEST), st.integers(-3000, 3000)), min_size=1, max_size=30),
    st.integers(0, AHEAD),
)
def test_it_is_the_kalman_filter(steps: list[tuple[int, int]], ahead: int) -> None:
    motion, exact, time, place = Motion(), FloatFilter(2 * 5000 + 320), 0, 5000
    motion.add(np.array([box(place, 0)]), 0)
    for passed, move in steps:
        time, place = time + passed, place + move
        motion.correct([0], np.array([box(place, 0)]), time)
        exact.correct(2 * place + 320, passed / 1000)
    x0, _, x1, _ = motion.boxes(time + ahead)[0].tolist()
    expected = exact.state[0] + exact.state[1] * ahead / 1000
    assert abs(x0 + x1 - expected) <= 3 + 0.002 * abs(exact.state[1] * (1 + ahead / 1000))


def test_an_object_that_walks_is_expected_farther_on() -> None:
    motion = Motion()
    motion.add(np.array([box(0, 0), box(0, 5000)]), 0)
    for time in range(100, 2100, 100):
        motion.correct([0], np.array([box(time, 0)]), time)
    (walked, _, _, _), (stood, _, _, _) = motion.boxes(3000).tolist()
    assert abs(walked - 3000) < 100
    assert stood == 0


def test_rows_are_kept_and_nothing_overflows_at_the_limits() -> None:
    motion, far = Motion(), 2**22
    motion.add(np.array([box(0, 0), box(-far, -far), box(0, 0)]), 0)
    motion.keep([1])
    for step in range(40):
        side = far if step % 2 else -far
        motion.correct([0], np.array([box(side, side, 1, 1)]), (step + 1) * LONGEST)
        assert np.abs(motion.boxes((step + 2) * LONGEST)).max() < 2**25
