"""Crowded scenes are functions of seed and number, and their boxes hold what was painted."""

import numpy as np
import pytest

from edgemeta.plugins.drawn.crowd import LABELS, CrowdedScenes

SIZE = 96


def test_a_scene_depends_on_seed_and_number_only() -> None:
    scenes, again = CrowdedScenes(1, SIZE), CrowdedScenes(1, SIZE)
    first = [scenes.draw(number) for number in range(4)]
    for number in (3, 0):
        one, other = first[number], again.draw(number)
        assert np.array_equal(one.pixels, other.pixels)
        assert np.array_equal(one.boxes, other.boxes)
        assert np.array_equal(one.classes, other.classes)
    assert not np.array_equal(CrowdedScenes(2, SIZE).draw(0).pixels, first[0].pixels)


@pytest.mark.gate("5 s: 60 scenes are drawn")
def test_boxes_lie_in_the_scene_and_every_label_comes() -> None:
    scenes = CrowdedScenes(1, SIZE)
    found = [scenes.draw(number) for number in range(60)]
    boxes, classes = (np.concatenate([getattr(each, name) for each in found]) for name in ("boxes", "classes"))
    assert found[0].pixels.shape == (SIZE, SIZE, 3)
    assert found[0].pixels.dtype == np.uint8
    assert boxes.min() >= 0
    assert boxes.max() <= SIZE
    sides = boxes[:, 2:] - boxes[:, :2]
    assert sides.min() >= 1
    assert sides.max() > 0.6 * SIZE
    assert np.median(sides) < 0.5 * SIZE
    assert set(np.unique(classes)) == set(range(len(LABELS)))
    counts = [len(each.boxes) for each in found]
    assert min(counts) >= 1
    assert max(counts) >= 5


def test_a_box_is_tight_around_what_differs_from_the_background() -> None:
    """A scene with one thing, painted once more without it: outside of its box nothing differs but the grain."""
    scenes, empty = CrowdedScenes(1, SIZE), CrowdedScenes(1, SIZE)
    scenes._hide = empty._hide = empty._add_thing = lambda *_: None  # type: ignore[method-assign]
    number = next(number for number in range(100) if len(scenes.draw(number).boxes) == 1)
    with_thing = scenes.draw(number)
    x0, y0, x1, y1 = with_thing.boxes[0].astype(int)
    assert 0 < (x1 - x0) * (y1 - y0) < SIZE * SIZE
    difference = np.abs(with_thing.pixels.astype(int) - empty.draw(number).pixels.astype(int)).mean(2)
    inside = np.zeros((SIZE, SIZE), bool)
    inside[y0:y1, x0:x1] = True
    assert difference[inside].mean() > 3 * difference[~inside].mean()


def test_the_size_has_limits() -> None:
    with pytest.raises(ValueError, match="the size of scenes is 32, expected 64 to 480 pixels"):
        CrowdedScenes(1, 32)
