r"""Mean average precision of a quantized YOLOX-nano beside its float network; writes results/quantized_detection.*.

    python benchmarks/quantized_detection.py --onnx yolox_nano.onnx --train train.npz --validation validation.npz \
        --coco coco_val.npz --clip vtest_480x360.avi [--only pictures|clip] [--model FILE] [--keep]

The network is imported, quantized by scheme `auto` with 100 pictures of the training part, evenly chosen, and again
with 100 frames of one fixed camera alone. The float network runs in ONNX Runtime, the integers on the cpu backend, both
on the same pictures: letterboxed to 416 pixels (bilinear, 114, in the corner at the top left). Candidates score 0.01 or
more, overlap by at most 0.65 and are at most 100 in an image. A class is measured on the images in which it was
annotated; boxes marked as difficult, or as crowds, are neither found nor missed (docs/test-data.md). F1: of the objects
of both networks above 0.3, by label and an overlap of one half, and at all scores as `quantize` counts them. Times are
of `quantize`, elapsed and of all cores.

--only: one of the two. --model: measure this integer model, made so before, in its place. --keep: write the results.
"""

import argparse
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import onnxruntime
from numpy.typing import NDArray

from benchmarks.accuracy import maps
from benchmarks.result_file import RESULTS, GrowingResult
from edgemeta.model.file import load
from edgemeta.model.float_file import load_float_model
from edgemeta.model.graph import FloatModel, Model
from edgemeta.model.preprocess import look_up
from edgemeta.tasks.detection.objects import Detector, Object
from edgemeta.tasks.detection.suppress import areas, intersections
from edgemeta.toolchain.evaluate.average_precision import OVERLAPS, WATCHED_SCORE, average_precision
from edgemeta.toolchain.evaluate.detection import least_scores
from edgemeta.toolchain.evaluate.float_detector import FloatDetector
from edgemeta.toolchain.importer.heads.coco import COCO
from edgemeta.toolchain.importer.heads.task_settings import TaskSettings
from edgemeta.toolchain.importer.import_network import import_network
from edgemeta.toolchain.importer.pixels import Pixels
from edgemeta.toolchain.quantize.auto import AutoScheme
from edgemeta.toolchain.quantize.calibration import Calibration
from edgemeta.toolchain.quantize.compare import Matches
from edgemeta.toolchain.quantize.quantize import quantize
from edgemeta.toolchain.quantize.run import integer_session

COMMAND = (
    "python benchmarks/quantized_detection.py --onnx yolox_nano.onnx --train train.npz --validation validation.npz "
    "--coco coco_val.npz --clip vtest_480x360.avi"
)
SIZE, BESIDE, CALIBRATE, OVERLAP, SURE = 416, 114, 100, 0.65, 0.3
OTHER, OTHERS = "other_animal", ("elephant", "bear", "zebra", "giraffe")
"""What a container names a few animals together."""
Find = Callable[[NDArray[np.uint8]], tuple[Object, ...]]


def main() -> None:
    """Quantize, measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--onnx", "--train", "--validation", "--coco", "--clip"):
        parser.add_argument(name, type=Path, required=True)
    parser.add_argument("--only", choices=("pictures", "clip"), help="one of the two calibrations")
    parser.add_argument("--model", type=Path, help="an integer model that was made so before")
    parser.add_argument("--keep", action="store_true", help="write into benchmarks/results")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        results = RESULTS if arguments.keep else folder
        written = GrowingResult("quantized_detection", COMMAND, results, {}, ("calibration",), lambda run: run["place"])
        source, pictures = folder / "float.safetensors", folder / "pictures"
        pixels = Pixels(colour="bgr", crop="letterbox", fill=(BESIDE,), align="corner")
        settings = TaskSettings(labels=COCO, overlap_threshold=OVERLAP)
        import_network(arguments.onnx, source, pixels, settings, name="yolox_nano")
        save_pictures(Container(arguments.train), pictures)
        parts = {part: Part(getattr(arguments, part), arguments.onnx, source) for part in ("validation", "coco")}
        for place, (calibration, path) in enumerate({"pictures": pictures, "clip": arguments.clip}.items()):
            if arguments.only in (None, calibration):
                model, spent = arguments.model, {}
                if model is None:
                    model, spent = quantized(source, path, folder / f"{calibration}.safetensors")
                run = {"place": place, "calibration": calibration, **spent, **measured(load(model), parts)}
                print(run, flush=True)
                written.add(run, {"float": {name: part.float_precision for name, part in parts.items()}}, table)
        print(table(written.runs()))


class Container:
    """Pictures with boxes, as in docs/test-data.md."""

    def __init__(self, path: Path) -> None:
        self._members: Mapping[str, NDArray[Any]] = dict(np.load(path))
        self._bounds = self._members["offsets"].astype(np.int64)
        self.labels = [str(each) for each in self._members["labels"]]

    def __len__(self) -> int:
        return len(self._bounds) - 1

    def file(self, number: int) -> bytes:
        """A picture as the JPEG file that it is."""
        return self._members["jpeg"][self._bounds[number] : self._bounds[number + 1]].tobytes()

    def images(self) -> Iterator[tuple[NDArray[np.uint8], float]]:
        """Each picture as pixels of the network, uint8 [SIZE, SIZE, 3] BGR, and how many of them a pixel became."""
        for number in range(len(self)):
            image = cv2.imdecode(np.frombuffer(self.file(number), np.uint8), cv2.IMREAD_COLOR)
            factor = SIZE / max(image.shape[:2])
            rows, columns = (int(side * factor) for side in image.shape[:2])
            pixels = np.full((SIZE, SIZE, 3), BESIDE, np.uint8)
            pixels[:rows, :columns] = cv2.resize(image, (columns, rows), interpolation=cv2.INTER_LINEAR)
            yield pixels, factor

    def annotated(self, label: int) -> list[int]:
        """The images in which a label was annotated."""
        return list(np.flatnonzero(self._members["labelled"][:, label]).tolist())

    def boxes(self, number: int, label: int) -> tuple[NDArray[np.float64], int]:
        """Boxes [n, 4] of a label in an image, the difficult ones last, and how many are plain."""
        members = self._members
        mine = (members["box_image"] == number) & (members["box_label"] == label)
        difficult = members["difficult"][mine].astype(np.int64)
        order = np.argsort(difficult, kind="stable")
        return members["boxes"][mine][order].astype(np.float64), int((difficult == 0).sum())


def save_pictures(train: Container, folder: Path) -> None:
    """The calibration pictures of the training part, as files."""
    folder.mkdir()
    for place, number in enumerate(np.linspace(0, len(train) - 1, CALIBRATE).astype(int).tolist()):
        (folder / f"{place:03}.jpg").write_bytes(train.file(number))


def quantized(source: Path, calibrate: Path, out: Path) -> tuple[Path, dict[str, float]]:
    """The integer model, and what it took: seconds elapsed, and of all cores."""
    before = sum(os.times()[:4])  # of this process and of its children
    result = quantize(source, out, AutoScheme(Calibration(calibrate, CALIBRATE)))
    cores = sum(os.times()[:4]) - before
    return out, {"seconds": round(result.seconds, 1), "core_seconds": round(cores, 1)}


@dataclass(frozen=True)
class Average:
    """Mean average precision in percent: at an overlap of one half, and of one half to 0.95."""

    at_half: float
    mean: float


class Part:
    """A container with what the float network finds in it."""

    def __init__(self, path: Path, onnx: Path, source: Path) -> None:
        self.container = Container(path)
        self.of_float = found(self.container, float_finder(onnx, load_float_model(source)))
        self.float_precision = vars(precision(self.container, self.of_float))
        print(f"{path.name}: float {self.float_precision}", flush=True)


def measured(model: Model, parts: Mapping[str, Part]) -> dict[str, Any]:
    """Digest, choice, and the figures of each part."""
    values: dict[str, Any] = {"model_sha256": model.digest, "choice": model.provenance.get("choice")}
    with closing(integer_session(model)) as session:
        detector = Detector(model, least_scores(model.task))

        def find(pixels: NDArray[np.uint8]) -> tuple[Object, ...]:
            outputs = session.run(np.ascontiguousarray(look_up(model.preprocessing.table, pixels[np.newaxis])))
            return detector.objects(tuple(each[0] for each in outputs))

        for name, part in parts.items():
            ours, matches, everywhere = found(part.container, find), Matches(), Matches()
            for wanted, mine in zip(part.of_float, ours, strict=True):
                matches.add(*([each for each in some if each.score >= SURE] for some in (wanted, mine)))
                everywhere.add_at_all_scores(wanted, mine)
            f1 = {"f1": round(100 * matches.f1, 1), "f1_at_all_scores": round(100 * everywhere.f1, 1)}
            values[name] = vars(precision(part.container, ours)) | f1
    return values


def float_finder(onnx: Path, model: FloatModel) -> Find:
    """Finds objects with ONNX Runtime."""
    session = onnxruntime.InferenceSession(str(onnx), providers=["CPUExecutionProvider"])
    name, detector = session.get_inputs()[0].name, FloatDetector(model, least_scores(model.task))

    def find(pixels: NDArray[np.uint8]) -> tuple[Object, ...]:
        (rows,) = session.run(None, {name: pixels.transpose(2, 0, 1)[np.newaxis].astype(np.float32)})
        return detector.objects(maps(model, rows[0]))

    return find


def found(container: Container, find: Find) -> list[list[Object]]:
    """The objects of each picture, best first, with boxes in its own pixels and labels of the container."""
    objects = []
    for pixels, factor in container.images():
        some = []
        for each in find(pixels):
            label = OTHER if each.label in OTHERS and OTHER in container.labels else each.label
            if label in container.labels:
                x0, y0, x1, y1 = (side / factor for side in each.box)
                some.append(Object(label, each.score, (x0, y0, x1, y1)))
        objects.append(some)
    return objects


def precision(container: Container, objects: Sequence[Sequence[Object]]) -> Average:
    """Over the labels that have plain boxes."""
    rows = [of_label(container, objects, label) for label in range(len(container.labels))]
    each = np.array([row for row in rows if row is not None])
    return Average(round(100 * float(each[:, 0].mean()), 1), round(100 * float(each.mean()), 1))


def of_label(container: Container, objects: Sequence[Sequence[Object]], label: int) -> NDArray[np.float64] | None:
    """Average precision 0..1 of one label at each of OVERLAPS; None without a plain box."""
    scores, states, total = [np.empty(0)], [np.empty((len(OVERLAPS), 0), np.int64)], 0
    crowds = OTHER not in container.labels
    for number in container.annotated(label):
        boxes, plain = container.boxes(number, label)
        total += plain
        mine = [each for each in objects[number] if each.label == container.labels[label]]
        if mine:
            shared = overlaps(np.array([each.box for each in mine]), boxes, plain, crowds)
            scores.append(np.array([each.score for each in mine]))
            states.append(np.array([judged(shared, plain, least) for least in OVERLAPS]))
    if not total:
        return None
    order = np.argsort(-np.concatenate(scores), kind="stable")
    ranked = np.concatenate(states, axis=1)[:, order]
    return np.array([average_precision(row[row >= 0] > 0, total) for row in ranked])


def overlaps(a: NDArray[np.float64], b: NDArray[np.float64], plain: int, crowds: bool) -> NDArray[np.float64]:
    """Intersection over union [n, m]; over a's own area where b, from place `plain` on, is a crowd."""
    shared, own = intersections(a, b), areas(a)[:, np.newaxis]
    union = own + areas(b) - shared
    if crowds:
        union[:, plain:] = own
    result: NDArray[np.float64] = shared / union
    return result


def judged(shared: NDArray[np.float64], plain: int, least: float) -> list[int]:
    """Of found objects, best first: 1 that takes a plain box, 0 for wrong, -1 that lies on a difficult one."""
    free, states = shared.copy(), []
    for row in free:
        best = int(row[:plain].argmax()) if plain else 0
        if plain and row[best] >= least:
            free[:, best] = -1.0
            states.append(1)
        else:
            states.append(-1 if (row[plain:] >= least).any() else 0)
    return states


def table(runs: Sequence[Mapping[str, Any]]) -> str:
    """Markdown of all runs."""
    rows = [
        f"YOLOX-nano by scheme `auto`, {CALIBRATE} pictures or frames, candidates from {WATCHED_SCORE} on.",
        "",
        "| calibration | choice | part | mAP50 | mAP50:95 | F1 above 0.3 | at all scores | seconds | core s |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for run in runs:
        for part in ("validation", "coco"):
            figures, spent = run[part], f"{run.get('seconds', '')} | {run.get('core_seconds', '')}"
            rows.append(
                f"| {run['calibration']} | {run['choice']} | {part} | {figures['at_half']} | {figures['mean']} "
                f"| {figures['f1']} | {figures['f1_at_all_scores']} | {spent} |"
            )
    return "\n".join(rows)


if __name__ == "__main__":
    main()
