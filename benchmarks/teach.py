"""What `edgemeta teach` reaches, and how long it takes.

    python benchmarks/teach.py --data SHARED [--backbone MODEL]     writes results/teach.{json,md}

SHARED is the folder of the test data (docs/test-data.md). Three tasks, each judged by pictures that `teach` never saw:

- gate: three states of a drawn gate (rig/drawn_gate.py), 20 pictures of each, over one day; tested on 100 of each, of
  five other days at other times; once by the whole frame, once by a region about the gate.
- street: regions of the clip with and without a person. A frame's label is that of an independent network, YOLOX-nano
  as our import reads it, run by ONNX Runtime: somebody is there if the lower half of a person's box that scores 0.5 or
  more lies mostly in the region; nobody is, if no box of 0.15 or more touches it; other frames are left out. Regions:
  all of a grid that have 50 frames of each class in both halves of the clip. 20 pictures of each class come from the
  first half; tested on all such frames of the second half.
- clothing: 20 pictures of each class, drawn from its folder `train` by a fixed seed; tested on its folder `validation`.
  Five seeds.
"""

import argparse
import random
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias

import cv2
import numpy as np
import onnxruntime
from numpy.typing import NDArray

from benchmarks.accuracy import maps
from benchmarks.result_file import write_json, write_markdown
from edgemeta.cli.options import load_model
from edgemeta.model.float_file import load_float_model
from edgemeta.model.graph import Model
from edgemeta.model.tasks import Classification, Detection
from edgemeta.plugins.pictures import read_picture
from edgemeta.plugins.preprocess import make_preprocessor
from edgemeta.plugins.registry import choose
from edgemeta.tasks.classification import logits_of
from edgemeta.toolchain.data.frames import ClipFrames, Frame
from edgemeta.toolchain.evaluate.float_detector import FloatDetector
from edgemeta.toolchain.importer.import_network import import_network
from edgemeta.toolchain.importer.pixels import Pixels
from edgemeta.toolchain.quantize.calibration import PreparedImages
from edgemeta.toolchain.teach.teach import Settings, Taught, teach
from rig.drawn_gate import STATES, gate_frame

PICTURES, SEEDS, DAYS, TESTED = 20, 5, 5, 20
REGION, STEP, FRAMES = (120, 120), 60, 50
"""Height and width of a region of the street, and the distance of neighbouring ones, pixels; frames that
it needs of each class, in each half of the clip."""
SOMEBODY, NOBODY = 0.5, 0.15
WHOLE, OPENING = (slice(None), slice(None)), (slice(66, 186), slice(84, 260))
"""Parts of the gate's frame: all of it, and about the gate, as a region of the camera would have it."""
LIMITS = {"gate": 0.97, "gate, region": 0.97, "street": 0.90, "clothing": 0.62, "seconds": 30.0}
Rows = list[dict[str, object]]
PERSON = 0
"""Number of the label among the 80 of COCO."""

Boxes: TypeAlias = list[tuple[float, float, float, float, float]]
"""Score, left, top, right and bottom side of each person, in pixels of the frame."""


@dataclass(frozen=True)
class Judged:
    """Shares 0..1: right labels before the rule of rejection, and right labels that it takes away; count: pictures."""

    right: float
    lost: float
    count: int


def main() -> None:
    """Teach, test, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder of the test data")
    parser.add_argument("--backbone", default="backbone64")
    parser.add_argument("--only", choices=list(LIMITS)[:-1], help="one task, nothing is written")
    arguments = parser.parse_args()
    backbone = load_model(arguments.backbone)
    tasks = {"gate": lambda: gate(backbone), "street": lambda: street(backbone, arguments.data)}
    tasks["gate, region"] = lambda: gate(backbone, OPENING)
    tasks["clothing"] = lambda: clothing(backbone, arguments.data / "clothing")
    rows: dict[str, Rows] = {name: run() for name, run in tasks.items() if arguments.only in (None, name)}
    if arguments.only is not None:
        return
    command = f"python benchmarks/teach.py --data SHARED --backbone {arguments.backbone}"
    write_json("teach", command, {"backbone_sha256": backbone.digest, "limits": LIMITS, "tasks": rows})
    write_markdown("teach", command, table(rows))
    print(table(rows))


def table(rows: dict[str, Rows]) -> str:
    """The means as a Markdown table."""
    lines = [
        "| task | runs | pictures of a class | accuracy % on other pictures | least | asked | "
        "cross-validated % | right labels rejected % | seconds, most |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, found in rows.items():
        accuracy = mean(found, "accuracy")
        least = min(float(str(row["accuracy"])) for row in found)
        seconds = max(float(str(row["seconds"])) for row in found)
        lines.append(
            f"| {name} | {len(found)} | {PICTURES} | {100 * accuracy:.1f} | {100 * least:.1f} | "
            f"{100 * LIMITS[name]:.0f} | {100 * mean(found, 'cross_validated'):.1f} | "
            f"{100 * mean(found, 'lost'):.1f} | {seconds:.1f} |"
        )
    return "\n".join(lines)


def mean(rows: Rows, key: str) -> float:
    """Mean of a column."""
    return float(np.mean([float(str(row[key])) for row in rows]))


def gate(backbone: Model, part: tuple[slice, slice] = WHOLE) -> Rows:
    """The drawn gate, of several first days; part: rows and columns of the frame that are looked at."""
    rows: Rows = []
    for day in range(3):
        times = np.random.default_rng(day).uniform(0.02, 0.98, (len(STATES), PICTURES))
        pictures = {
            state: [gate_frame(state, day, time, i)[part] for i, time in enumerate(sorted(times[k]))]
            for k, state in enumerate(STATES)
        }
        taught, seconds = taught_by(backbone, pictures, f"gate, day {day}")
        other = np.random.default_rng(100 + day)
        frames = [
            (k, gate_frame(state, 1000 + later, float(other.uniform(0.02, 0.98)), 500 + i)[part])
            for later in range(DAYS)
            for k, state in enumerate(STATES)
            for i in range(TESTED)
        ]
        rows.append(row({"day": day}, taught, seconds, judge(taught.model, iter(frames))))
    return rows


def street(backbone: Model, data: Path) -> Rows:
    """Regions of the clip."""
    clip = data / "video" / "vtest_480x360.avi"
    frames = [frame.copy() for frame in ClipFrames(clip, 1 << 20)]
    seen = people(data / "networks" / "yolox_nano.onnx", clip, NOBODY)
    rows: Rows = []
    half = len(frames) // 2
    height, width = frames[0].shape[:2]
    for top in range(0, height - REGION[0] + 1, STEP):
        for left in range(0, width - REGION[1] + 1, STEP):
            classes = np.array([somebody(boxes, top, left) for boxes in seen])
            first = {label: np.flatnonzero(classes[:half] == label) for label in (0, 1)}
            later = np.flatnonzero(classes[half:] >= 0) + half
            counts = np.bincount(classes[later], minlength=2)
            if min(len(first[0]), len(first[1]), *counts) < FRAMES:
                continue

            def cut(number: int, top: int = top, left: int = left) -> Frame:
                return frames[number][top : top + REGION[0], left : left + REGION[1]]

            pictures = {
                name: [cut(int(of[i * len(of) // PICTURES])) for i in range(PICTURES)]
                for name, of in (("nobody", first[0]), ("somebody", first[1]))
            }
            taught, seconds = taught_by(backbone, pictures, "street")
            tested = ((int(classes[number]), cut(int(number))) for number in later)
            place = {"top": top, "left": left, "tested_of_class": counts.tolist()}
            rows.append(row(place, taught, seconds, judge(taught.model, tested)))
    return rows


def somebody(boxes: Boxes, top: int, left: int) -> int:
    """1: somebody is in the region, 0: nobody, -1: it cannot be said."""
    bottom, right = top + REGION[0], left + REGION[1]
    touches = False
    for score, x0, y0, x1, y1 in boxes:
        middle = (y0 + y1) / 2
        inside = max(0.0, min(x1, right) - max(x0, left)) * max(0.0, min(y1, bottom) - max(middle, top))
        if score >= SOMEBODY and inside > 0.5 * (x1 - x0) * (y1 - middle):
            return 1
        touches |= min(x1, right) > max(x0, left) and min(y1, bottom) > max(y0, top)
    return -1 if touches else 0


def clothing(backbone: Model, folder: Path) -> Rows:
    """Somebody's own photographs."""
    labels = sorted(each.name for each in (folder / "train").iterdir())
    tested = [(k, file) for k, label in enumerate(labels) for file in sorted((folder / "validation" / label).iterdir())]
    rows: Rows = []
    for seed in range(SEEDS):
        chosen = random.Random(seed)
        pictures = {
            label: [
                read_picture(file) for file in chosen.sample(sorted((folder / "train" / label).iterdir()), PICTURES)
            ]
            for label in labels
        }
        taught, seconds = taught_by(backbone, pictures, "clothing")
        frames = ((k, read_picture(file)) for k, file in tested)
        rows.append(row({"seed": seed}, taught, seconds, judge(taught.model, frames)))
    return rows


def taught_by(backbone: Model, pictures: dict[str, list[Frame]], name: str) -> tuple[Taught, float]:
    """Write the pictures to a folder, as lossless files, and teach; seconds without the writing."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for label, frames in pictures.items():
            (folder / label).mkdir()
            for number, frame in enumerate(frames):
                cv2.imwrite(str(folder / label / f"{number:03}.png"), frame)
        begin = time.monotonic()
        taught = teach(folder, backbone, Settings(name), print, lambda *_: None)
        return taught, time.monotonic() - begin


def judge(model: Model, frames: Iterator[tuple[int, Frame]]) -> Judged:
    """Run the model file's network on pictures of known classes, as the service does."""
    task = model.task
    assert isinstance(task, Classification)
    threshold = task.rejection.threshold if task.rejection else -(1 << 31)
    prepared = lru_cache(64)(lambda shape: make_preprocessor(model, shape))
    right, lost, count = 0, 0, 0
    with closing(choose("cpu").compile(model, {})) as session:
        for label, frame in frames:
            logits: NDArray[np.int32] = logits_of(session.run(prepared(frame.shape)(frame)))[0]
            is_right = int(logits.argmax()) == label
            right += is_right
            lost += is_right and int(logits.max()) < threshold
            count += 1
    return Judged(right / count, lost / count, count)


def row(head: dict[str, object], taught: Taught, seconds: float, judged: Judged) -> dict[str, object]:
    """One run."""
    found = {
        **head,
        "accuracy": judged.right,
        "tested": judged.count,
        "lost": judged.lost,
        "cross_validated": taught.findings.accuracy,
        **asdict(taught.choice),
        "seconds": round(seconds, 2),
    }
    print(found, flush=True)
    return found


def people(network: Path, clip: Path, least_score: float) -> list[Boxes]:
    """People in the frames of a clip, by YOLOX-nano as our import reads it, run by ONNX Runtime in float."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "yolox.safetensors"
        import_network(network, file, Pixels(colour="bgr", crop="letterbox", fill=(114,), align="corner"))
        model = load_float_model(file)
    task = model.task
    assert isinstance(task, Detection)
    model = replace(model, task=replace(task, score_threshold=least_score))
    session = onnxruntime.InferenceSession(str(network))
    (image_name,) = (each.name for each in session.get_inputs())
    frames = ClipFrames(clip, 1 << 20)
    height, width = next(iter(frames)).shape[:2]
    scale = min(model.input_shape[0] / height, model.input_shape[1] / width)
    detector, images = FloatDetector(model), PreparedImages(model, frames)
    found = []
    for image in images:
        (rows,) = session.run(None, {image_name: images.real(image).transpose(0, 3, 1, 2).copy()})
        objects = detector.objects(maps(model, rows[0]))
        boxes: Boxes = []
        for each in objects:
            x0, y0, x1, y1 = (side / scale for side in each.box)
            if each.label == task.labels[PERSON]:
                boxes.append((each.score, x0, y0, x1, y1))
        found.append(boxes)
    return found


if __name__ == "__main__":
    main()
