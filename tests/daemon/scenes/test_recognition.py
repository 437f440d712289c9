"""The shipped network recognizes what the synthetic camera draws: the promise that the demo makes."""

from edgemeta.daemon.scenes.recognition import recognition
from edgemeta.daemon.scenes.show import SCENES
from edgemeta.model.file import load
from edgemeta.model.zoo import find
from edgemeta.plugins.registry import choose

WANTED_CLASSES, WANTED_RATE = 5, 0.8


def test_at_least_five_classes_are_named_right_in_four_fifths_of_their_frames() -> None:
    model = load(find("resnet8-cifar10"))
    session = choose("auto").compile(model, {})
    asked: list[str] = []
    found = recognition(model, session, seed=1, takes=4, frames_per_take=10, progress=asked.append)
    session.close()
    assert asked == [scene.label for scene in SCENES] == [result.label for result in found]
    assert all(result.right + sum(result.mistaken.values()) == result.frames == 40 for result in found)
    well = [result.label for result in found if result.rate >= WANTED_RATE]
    assert len(well) >= WANTED_CLASSES, {result.label: (result.rate, result.mistaken) for result in found}
