"""The shipped network recognizes what the synthetic camera draws: the promise that the demo makes."""

import pytest

from benchmarks.demo_recognition import recognition
from edgemeta.model.file import load
from edgemeta.model.zoo import find
from edgemeta.plugins.drawn.show import SCENES
from edgemeta.plugins.registry import choose

WANTED_CLASSES, WANTED_RATE = 5, 0.8


@pytest.mark.gate("9 s: hundreds of frames are painted")
def test_every_scene_is_classified_correctly_in_four_fifths_of_its_frames() -> None:
    """The demo promises five classes; a scene that falls below the rate is to leave the show."""
    model = load(find("resnet8-cifar10"))
    session = choose("auto").compile(model, {})
    asked: list[str] = []
    found = recognition(model, session, seed=1, takes=4, frames_per_take=10, progress=asked.append)
    session.close()
    assert asked == [scene.label for scene in SCENES] == [result.label for result in found]
    assert len(set(asked)) == len(asked) >= WANTED_CLASSES
    assert all(result.right + sum(result.mistaken.values()) == result.frames == 40 for result in found)
    assert all(result.rate >= WANTED_RATE for result in found), {r.label: (r.rate, r.mistaken) for r in found}
