"""How often the shipped network names the demo's scenes right.

    python benchmarks/demo_recognition.py [MODEL]

Draws 20 takes of each scene (each with other colours, clouds, light and motion), 30 frames each over the whole scene,
runs them through the model, prints the rate per class, and writes results/demo-recognition.json.
"""

import json
import sys
from pathlib import Path

import cv2
import numpy as np

from benchmarks.scene_recognition import recognition
from edgemeta.model.file import load
from edgemeta.model.zoo import find
from edgemeta.plugins.registry import choose

RESULT = Path(__file__).parent / "results" / "demo-recognition.json"
SEED, TAKES, FRAMES_PER_TAKE = 2026, 20, 30


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
