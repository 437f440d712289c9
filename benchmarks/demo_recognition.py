"""How often the shipped network names the demo's scenes right.

    python benchmarks/demo_recognition.py [MODEL]

Draws 20 takes of each scene (each with other colours, clouds, light and motion), 30 frames each over the whole scene,
runs them through the model, prints the rate per class, and writes results/demo-recognition.json.
"""

import json
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

from edgemeta.model.file import load
from edgemeta.model.graph import Model
from edgemeta.model.zoo import find
from edgemeta.plugins.api import Session
from edgemeta.plugins.drawn.show import SCENES, Show
from edgemeta.plugins.preprocess import make_preprocessor
from edgemeta.plugins.registry import choose
from edgemeta.tasks.results import reader

RESULT = Path(__file__).parent / "results" / "demo-recognition.json"
SEED, TAKES, FRAMES_PER_TAKE = 2026, 20, 30


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


def main() -> None:
    """Measure, print and write."""
    name = sys.argv[1] if len(sys.argv) > 1 else "resnet8-cifar10"
    model, backend = load(find(name)), choose("auto")
    session = backend.compile(model, {})
    found = recognition(
        model,
        session,
        seed=SEED,
        takes=TAKES,
        frames_per_take=FRAMES_PER_TAKE,
        progress=lambda label: print(f"drawing {label} …", file=sys.stderr),
    )
    session.close()
    for scene in found:
        print(
            f"{scene.label:12s} {scene.right:4d} of {scene.frames} frames named right ({scene.rate:.1%})",
            scene.mistaken,
        )
    result = {
        "command": "python benchmarks/demo_recognition.py",
        "model": {"name": model.name, "sha256": model.digest},
        "backend": backend.name,
        "numpy": np.__version__,
        "opencv": cv2.__version__,
        "seed": SEED,
        "takes": TAKES,
        "frames_per_take": FRAMES_PER_TAKE,
        "scenes": {s.label: {"frames": s.frames, "right": s.right, "rate": round(s.rate, 4)} for s in found},
    }
    temporary = RESULT.with_suffix(".part")
    temporary.write_text(json.dumps(result, indent=2) + "\n")
    temporary.replace(RESULT)


if __name__ == "__main__":
    main()
