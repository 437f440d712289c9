"""How often a network names what the show shows, frame by frame, without camera or broker."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from edgemeta.daemon.capture.sources.synthetic.show import SCENES, Show
from edgemeta.model.graph import Model
from edgemeta.plugins.api import Session
from edgemeta.plugins.preprocess import make_preprocessor
from edgemeta.tasks.results import reader


@dataclass(frozen=True)
class Recognition:
    """Of `frames` frames that show `label`, `right` were named so; `mistaken` counts the other names."""

    label: str
    frames: int
    right: int
    mistaken: dict[str, int]

    @property
    def rate(self) -> float:
        """Share of frames named right."""
        return self.right / self.frames


def recognition(
    model: Model, session: Session, *, seed: int, takes: int, frames_per_take: int, progress: Callable[[str], None]
) -> list[Recognition]:
    """Run `takes` takes of every scene, each `frames_per_take` frames over the scene's whole course.

    Every take is painted and moved with random numbers of its own. `progress` is told each label as its turn comes.
    """
    results = []
    for scene in SCENES:
        progress(scene.label)
        show = Show(seed, frames_per_take, (scene,))
        names: Counter[str] = Counter()
        for number in range(takes * frames_per_take):
            frame = show.frame(number)
            if number == 0:
                read, prepare = reader(model, 1), make_preprocessor(model, frame.shape)
            found = read([output[0] for output in session.run(prepare(frame))])
            names["unknown" if found.unknown else found.labels[0][0]] += 1
        right = names.pop(scene.label, 0)
        results.append(Recognition(scene.label, takes * frames_per_take, right, dict(names.most_common())))
    return results
