"""The drawn gate: the same frame every time, another one at another time, and the state in it."""

import numpy as np

from rig.drawn_gate import HEIGHT, STATES, WIDTH, gate_frame


def test_a_frame_depends_on_its_arguments_only() -> None:
    frame = gate_frame("half", 3, 0.4, 17)
    assert frame.shape == (HEIGHT, WIDTH, 3)
    assert frame.dtype == np.uint8
    np.testing.assert_array_equal(frame, gate_frame("half", 3, 0.4, 17))


def test_day_time_and_number_change_it() -> None:
    frame = gate_frame("half", 3, 0.4, 17).astype(int)
    for other in (gate_frame("half", 4, 0.4, 17), gate_frame("half", 3, 0.8, 17), gate_frame("half", 3, 0.4, 18)):
        assert np.abs(frame - other).mean() > 1


def test_the_states_differ_where_the_gate_is() -> None:
    """On the mean of many frames, within the opening; beside it they are alike."""
    means = [np.mean([gate_frame(state, 1, 0.4, i).astype(float) for i in range(12)], axis=0) for state in STATES]
    for one, other in ((0, 1), (1, 2), (0, 2)):
        difference = np.abs(means[one] - means[other]).mean(axis=2)
        assert difference[100:150, 180:220].mean() > 2 * difference[100:150, 10:60].mean() or (one, other) == (1, 2)
    closed_open = np.abs(means[0] - means[2]).mean(axis=2)
    assert closed_open[100:150, 130:220].mean() > 3 * closed_open[20:50].mean()
