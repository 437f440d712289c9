r"""The shipped detector on pictures that it never saw, and where it fails; writes results/shipped_detector.{json,md}.

    python benchmarks/shipped_detector.py --data FOLDER --model people-vehicles-animals \
        --float people-vehicles-animals-float.safetensors --yolox yolox-nano.safetensors --keep

FOLDER is that of docs/test-data.md, of which are used: detection/test.npz; video/vtest_480x360.avi with
vtest_truth.csv (persons of 20 frames); clothing/validation. YOLOX is our integer model of YOLOX-nano.

Precision: average precision in percent at an overlap of one half, as COCO has it; `animals` is the mean of SIX. The
integers run on the cpu backend, the float network in NumPy, on the same pictures, scaled by area averages.

Without an object: 100 photographs of clothing in which YOLOX-nano sees none of our labels with WITNESSED and more (in
every fifth a person wears it), 100 drawn places (backdrops of the demo), 100 textures (such clothing with
its phases exchanged): the share with an object of at least SURE, and with one that the model reports, from its own
threshold on.

Scores: of the objects in each tenth, how many are right at an overlap of one half.

Where it fails: the share of boxes with an object of their label and at least SURE that overlaps them by one half, by
size (the root of the area, in pixels of the network's image), by light (mean brightness of the picture, 0 to 255), by
how many boxes the picture has, and by how far another box of the label covers it (intersection over union).

Time: one core, pinned, taking turns with YOLOX-nano, so that both share what else the machine does.

--only precision|time: only these. --keep: write into benchmarks/results, otherwise only print.
"""

import argparse
import csv
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from benchmarks.result_file import write_json, write_markdown
from benchmarks.runtime_turns import started
from edgemeta.cli.options import load_model
from edgemeta.model.address import Address
from edgemeta.model.float_file import load_float_model
from edgemeta.model.graph import FloatModel, Model
from edgemeta.model.tasks import Detection
from edgemeta.plugins.drawn import backdrops
from edgemeta.tasks.detection.objects import Object
from edgemeta.tasks.detection.suppress import overlaps
from edgemeta.toolchain.data.boxed_images import BoxedImages
from edgemeta.toolchain.data.boxes.opened import open_boxed_images
from edgemeta.toolchain.data.boxes.pictures import ReadPicture, ReadPictures
from edgemeta.toolchain.data.frames import ArrayFrames, ClipFrames, FolderFrames, Frames
from edgemeta.toolchain.evaluate.average_precision import Precision, judged_objects, mean_average_precision
from edgemeta.toolchain.evaluate.detection import evaluate_float_detector, finder, objects_in
from edgemeta.toolchain.quantize.run import integer_session
from edgemeta.toolchain.reject.detection_scores import greatest_scores, score_bins
from edgemeta.toolchain.reject.made_foreign import make_foreign

COMMAND = (
    "python benchmarks/shipped_detector.py --data FOLDER --model people-vehicles-animals "
    "--float people-vehicles-animals-float.safetensors --yolox yolox-nano.safetensors --keep"
)
PERSON, VEHICLE = "person", "car"
SIX = ("cat", "dog", "horse", "sheep", "cow", "other_animal")
SURE, WITNESSED, EACH, ROUNDS, CALLS = 0.5, 0.3, 100, 40, 20
PLACES = (
    backdrops.sky,
    backdrops.sea,
    backdrops.road,
    backdrops.yard,
    backdrops.meadow,
    backdrops.heath,
    backdrops.garden,
    backdrops.leaves,
    backdrops.parlour,
)
GOALS = {PERSON: 50, VEHICLE: 40, "animals": 55, "PETS clip, person": 75}
EDGES: Mapping[str, tuple[float, ...]] = {
    "size, pixels": (0, 8, 16, 32, 64, 1000),
    "brightness": (0, 50, 80, 256),
    "boxes in the picture": (0, 3, 8, 20, 1000),
    "covered by another": (0, 0.1, 0.3, 1.01),
}
"""Borders between groups of boxes; each has its least value, not its greatest."""


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the test data")
    parser.add_argument("--model", default="people-vehicles-animals", help="the integer model")
    parser.add_argument("--float", type=Path, help="its float model")
    parser.add_argument("--yolox", type=Path, required=True, help="our integer model of YOLOX-nano")
    parser.add_argument("--only", choices=("precision", "time"), help="measure only this")
    parser.add_argument("--cores", default="1", help="processor to pin to")
    parser.add_argument("--keep", action="store_true", help="write into benchmarks/results")
    arguments = parser.parse_args()
    model = load_model(arguments.model)
    values: dict[str, Any] = {"model": model.name, "model_sha256": model.digest}
    if arguments.only != "time":
        values |= precision_of(model, arguments.data, arguments.float, load_model(str(arguments.yolox)))
    if arguments.only != "precision":
        values["time"] = time_of(Address.parse(arguments.model).read()[0], arguments.yolox, arguments.cores)
    text = "\n\n".join(tables(values))
    print(text)
    if arguments.keep:
        write_json("shipped_detector", COMMAND, values)
        write_markdown("shipped_detector", COMMAND, text)


def precision_of(model: Model, data: Path, float_file: Path | None, witness: Model) -> dict[str, Any]:
    """All figures but the time. witness: YOLOX-nano."""
    assert isinstance(model.task, Detection)
    size, side = model.input.shape[:2], max(model.input.shape[:2])
    test, clip = open_boxed_images(data / "detection" / "test.npz", model.labels, size), clip_images(data, model)
    with closing(integer_session(model)) as session:
        find = finder(model, session)
        on_test, on_clip = (objects_in(images, model, find, lambda *_: None) for images in (test, clip))
    values: dict[str, Any] = {
        "int8": {**labels_of(mean_average_precision(on_test, test)), **clip_figure(on_clip, clip)},
        "without_objects": {
            each.source: shares(greatest_scores(model, each), (SURE, model.task.score_threshold))
            for each in foreign(data / "clothing" / "validation", side, witness, model.labels)
        },
        "scores": [vars(each) for each in score_bins(judged_objects(on_test, test))],
        "groups": groups(on_test, test),
        "images": len(test),
        "threshold": model.task.score_threshold,
    }
    if float_file is not None:
        values["float"] = of_float(load_float_model(float_file), test, clip)
    return values


def shares(greatest: NDArray[np.float64], least: Sequence[float]) -> list[float]:
    """The share of pictures, by their greatest scores [n], with an object that scores at least so much."""
    return [round(float((greatest >= score).mean()), 4) for score in least]


def clip_images(data: Path, model: Model) -> BoxedImages:
    """The frames of the clip whose persons are known; other labels are not."""
    clip = data / "video" / "vtest_480x360.avi"
    boxes: dict[int, list[list[float]]] = {}
    for row in csv.DictReader((data / "video" / "vtest_truth.csv").open()):
        boxes.setdefault(int(row["frame"]), []).append([float(row[name]) for name in ("x0", "y0", "x1", "y1")])
    known = np.array([label == PERSON for label in model.labels])
    pictures = []
    for number, frame in enumerate(ClipFrames(clip, 1 << 30)):
        if number in boxes:
            own = np.array(boxes[number], np.float32)
            count = len(own)
            classes = np.full(count, model.labels.index(PERSON), np.int64)
            pixels = np.ascontiguousarray(frame[..., ::-1])
            pictures.append(ReadPicture(pixels, own, classes, np.zeros(count, np.bool_), known))
    return ReadPictures(model.labels, tuple(pictures)).letterboxed(model.input.shape[:2], 128)


def of_float(model: FloatModel, test: BoxedImages, clip: BoxedImages) -> dict[str, float]:
    """The same figures of the float network."""
    found = [evaluate_float_detector(model, images, lambda *_: None) for images in (test, clip)]
    return {**labels_of(found[0]), "PETS clip, person": labels_of(found[1]).get(PERSON, 0.0)}


def labels_of(found: Precision) -> dict[str, float]:
    """Average precision of each label at one half, in percent, and that of animals and of all."""
    each = {row.label: row.at_half for row in found.labels}
    six = [each.get(label, 0.0) for label in SIX]
    figures = {PERSON: each.get(PERSON, 0.0), VEHICLE: each.get(VEHICLE, 0.0), "animals": float(np.mean(six))}
    every = {**figures, "all labels": found.at_half, "all labels, 0.5 to 0.95": found.mean, **each}
    return {name: round(100 * share, 1) for name, share in every.items()}


def clip_figure(found: Sequence[Sequence[Object]], clip: BoxedImages) -> dict[str, float]:
    """The precision of persons on the clip."""
    return {"PETS clip, person": labels_of(mean_average_precision(found, clip))[PERSON]}


class Kept:
    """Pictures [H, W, 3], B, G, R, as frames."""

    def __init__(self, pictures: Sequence[NDArray[np.uint8]], source: str) -> None:
        self.pictures, self.source = pictures, source

    def __len__(self) -> int:
        return len(self.pictures)

    def __iter__(self) -> Iterator[NDArray[np.uint8]]:
        return iter(self.pictures)


def foreign(clothing: Path, side: int, witness: Model, labels: tuple[str, ...]) -> Iterator[Frames]:
    """Pictures without an object of any label."""
    photographs = FolderFrames(clothing, sys.maxsize, print)
    free = greatest_scores(witness, photographs, labels) < WITNESSED
    kept = Kept([each for each, is_free in zip(photographs, free, strict=True) if is_free][:EACH], "clothing")
    squares = np.stack([cv2.resize(each, (side, side), interpolation=cv2.INTER_AREA) for each in kept])
    yield kept
    rng = np.random.default_rng(40)
    drawn = [PLACES[number % len(PLACES)](rng, 4 * side // 3) for number in range(EACH)]
    yield ArrayFrames(np.stack([np.clip(each, 0, 255).astype(np.uint8)[..., ::-1] for each in drawn]), "drawn places")
    yield ArrayFrames(make_foreign(squares[..., ::-1], "scrambled", EACH, seed=40), "textures")


def groups(found: Sequence[Sequence[Object]], images: BoxedImages) -> dict[str, list[dict[str, Any]]]:
    """The share of plain boxes that were found, by what makes it hard."""
    assert images.difficult is not None
    plain = ~images.difficult
    measured = {
        "size, pixels": np.sqrt((images.boxes[:, 2] - images.boxes[:, 0]) * (images.boxes[:, 3] - images.boxes[:, 1])),
        "brightness": brightness(images)[images.images],
        "boxes in the picture": np.bincount(images.images, minlength=len(images))[images.images],
        "covered by another": covered(images),
    }
    hit = hits(found, images)
    result = {}
    for name, values in measured.items():
        edges = EDGES[name]
        parts = [(low, high, plain & (values >= low) & (values < high)) for low, high in pairwise(edges)]
        result[name] = [
            {"from": low, "to": high, "boxes": int(part.sum()), "found": round(float(hit[part].mean()), 3)}
            for low, high, part in parts
            if part.any()
        ]
    return result


def hits(found: Sequence[Sequence[Object]], images: BoxedImages) -> NDArray[np.bool_]:
    """Whether an object of its label that scores at least SURE overlaps each box by one half."""
    result = np.zeros(len(images.boxes), np.bool_)
    for box, (number, label) in enumerate(zip(images.images.tolist(), images.classes.tolist(), strict=True)):
        mine = [each.box for each in found[number] if each.label == images.labels[label] and each.score >= SURE]
        own = images.boxes[box : box + 1].astype(np.float64)
        result[box] = bool(mine) and bool(overlaps(np.array(mine), own).max() >= 0.5)
    return result


def brightness(images: BoxedImages) -> NDArray[np.float64]:
    """Mean of each picture without the grey beside it."""
    means = []
    for pixels in images.x:
        inside = (pixels != 128).any(axis=2)
        means.append(float(pixels[inside].mean()) if inside.any() else 128.0)
    return np.array(means)


def covered(images: BoxedImages) -> NDArray[np.float64]:
    """The greatest overlap of each box with another one of its label."""
    result = np.zeros(len(images.boxes))
    for number in range(len(images)):
        first, last = np.searchsorted(images.images, (number, number + 1))
        boxes, classes = images.boxes[first:last].astype(np.float64), images.classes[first:last]
        if len(boxes) > 1:
            shared = overlaps(boxes, boxes) * (classes[:, np.newaxis] == classes)
            np.fill_diagonal(shared, 0.0)
            result[first:last] = shared.max(axis=1)
    return result


def time_of(file: Path, yolox: Path, cores: str) -> dict[str, float]:
    """Median and least microseconds of both on one core, in turns, and their ratios."""
    with started("edgemeta", file, 1, cores) as ours, started("edgemeta", yolox, 1, cores) as theirs:
        times: tuple[list[float], list[float]] = ([], [])
        for _ in range(ROUNDS):
            for taken, process in zip(times, (ours, theirs), strict=True):
                taken += process.times(CALLS, 0)
    found: dict[str, float] = {}
    for name, figure in (("median", np.median), ("least", np.min)):
        own, other = (float(figure(taken)) for taken in times)
        found |= {f"{name}_us": round(own, 1), f"yolox_nano_{name}_us": round(other, 1)}
        found[f"{name}_ratio"] = round(own / other, 3)
    return found


def tables(values: Mapping[str, Any]) -> Iterator[str]:
    """Markdown of all that was measured."""
    yield f"`{values['model']}`, sha256 `{values['model_sha256'][:12]}`."
    if "int8" in values:
        yield from precision_tables(values)
    if "time" in values:
        rows = ["| one core, in turns | ms | YOLOX-nano | ratio (goal 0.6) |", "|---|---|---|---|"]
        parts = (("", "us"), ("yolox_nano_", "us"), ("", "ratio"))
        for name in ("median", "least"):
            own, other, ratio = (values["time"][f"{part}{name}_{end}"] for part, end in parts)
            rows.append(f"| {name} | {own / 1000:.2f} | {other / 1000:.2f} | {ratio} |")
        yield "\n".join(rows)


def precision_tables(values: Mapping[str, Any]) -> Iterator[str]:
    """Markdown of all but the time."""
    floats = values.get("float", {})
    rows = ["| average precision, % | int8 | float | int8 - float | goal |", "|---|---|---|---|---|"]
    for name, share in values["int8"].items():
        beside = f"{floats[name]} | {share - floats[name]:+.1f}" if name in floats else " | "
        rows.append(f"| {name} | {share} | {beside} | {GOALS.get(name, '')} |")
    yield f"Test part, {values['images']} pictures:\n\n" + "\n".join(rows)
    kinds = values["without_objects"]
    kinds = {**kinds, "all (goal 3 %)": np.mean(list(kinds.values()), axis=0)}
    rows = [
        f"| pictures without an object | with one of 0.5 | reported, from {values['threshold']:g} on |",
        "|---|---|---|",
    ]
    rows += [f"| {name} | {sure:.1%} | {reported:.1%} |" for name, (sure, reported) in kinds.items()]
    yield "\n".join(rows)
    rows = ["| score | right | objects |", "|---|---|---|"]
    rows += [f"| {each['score']:.2f} | {each['right']:.2f} | {each['objects']} |" for each in values["scores"]]
    yield "\n".join(rows)
    rows = ["| where it fails | | boxes | found |", "|---|---|---|---|"]
    for name, parts in values["groups"].items():
        rows += [f"| {name} | {p['from']:g} to {p['to']:g} | {p['boxes']} | {p['found']:.0%} |" for p in parts]
    yield "\n".join(rows)


if __name__ == "__main__":
    main()
