"""The show is a pure function of seed and frame number, and something moves in it."""

import numpy as np
import pytest

from edgemeta.plugins.drawn.show import HEIGHT, SCENES, WIDTH, Show


def test_a_frame_depends_on_seed_and_number_only() -> None:
    in_order = Show(seed=3, frames_per_scene=4)
    frames = [in_order.frame(number).copy() for number in range(10)]
    backwards = Show(seed=3, frames_per_scene=4)
    for number in reversed(range(10)):
        assert np.array_equal(backwards.frame(number), frames[number])


def test_another_seed_gives_other_frames() -> None:
    assert not np.array_equal(Show(seed=1).frame(0), Show(seed=2).frame(0))


def test_frames_are_camera_images() -> None:
    frame = Show().frame(0)
    assert frame.shape == (HEIGHT, WIDTH, 3)
    assert frame.dtype == np.uint8
    assert frame.flags.c_contiguous


@pytest.mark.parametrize("index", range(len(SCENES)), ids=[scene.label for scene in SCENES])
def test_each_scene_moves_and_is_neither_black_nor_white(index: int) -> None:
    show = Show(frames_per_scene=6)
    early, late = show.frame(6 * index).astype(int), show.frame(6 * index + 5).astype(int)
    assert np.abs(early - late).mean() > 4  # grain alone is below
    assert 20 < early.mean() < 235
    assert early.std() > 15


def test_truth_follows_the_scenes_in_turn() -> None:
    show = Show(frames_per_scene=2)
    labels = [show.truth(number) for number in range(2 * len(SCENES) + 2)]
    assert labels[::2] == [scene.label for scene in SCENES] + [SCENES[0].label]
    assert labels[1::2] == labels[::2]


def test_delivered_frames_do_not_change() -> None:
    show = Show()
    first = show.frame(0)
    kept = first.copy()
    show.frame(1)
    assert np.array_equal(first, kept)
