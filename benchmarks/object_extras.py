"""Points of imported pose networks beside Ultralytics' own decoder, and what extras of objects cost.

    python benchmarks/object_extras.py FILE.onnx ... [--keep]    --keep writes results/object-extras.{md,json}

FILE is an export of Ultralytics (`yolo export model=yolov8n-pose.yaml format=onnx`; random weights will do), of poses
or of masks. ONNX Runtime runs it on a random image, Ultralytics decodes and suppresses; edgemeta imports it and runs
the float network. Compared are the objects of the 30 greatest scores, points in pixels of the network's image. Time is
that of `Detector.objects` for those objects, on the same integers with and without their extras.
"""

import argparse
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np
import onnxruntime
import torch
from numpy.typing import NDArray
from ultralytics.utils.nms import non_max_suppression

from benchmarks.result_file import write_json, write_markdown
from edgemeta.model.float_reference import all_tensors
from edgemeta.model.graph import FloatModel
from edgemeta.model.tasks import Detection, ObjectPoints
from edgemeta.tasks.detection.objects import Detector
from edgemeta.toolchain.importer.import_network import import_network
from tests.toolchain.importer.float_results import as_integers, stand_in

BEST, OVERLAP, REPEATS = 30, 0.5, 20
COMMAND = "python benchmarks/object_extras.py FILE.onnx ... --keep"


def main() -> None:
    """Read the command line, compare, write the files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--keep", action="store_true")
    arguments = parser.parse_args()
    rows = [compared(file) for file in arguments.files]
    lines = [f"| {' | '.join(rows[0])} |", "|---" * len(rows[0]) + "|"]
    for row in rows:
        lines.append(f"| {' | '.join(shown(each) for each in row.values())} |")
    text = "\n".join(lines)
    print(text)
    if arguments.keep:
        write_json("object-extras", COMMAND, {"files": rows})
        write_markdown("object-extras", COMMAND, text)


def shown(value: object) -> str:
    """A cell of the table."""
    return "" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)


def compared(file: Path) -> dict[str, Any]:
    """One line of the table; differences are the greatest ones."""
    with TemporaryDirectory() as folder:
        model = import_network(file, Path(folder) / "m.safetensors", {}).model
    assert isinstance(model, FloatModel)
    task = model.task
    assert isinstance(task, Detection)
    assert task.extras is not None
    height, width, _ = model.input_shape
    image = np.random.default_rng(3).uniform(0, 1, (1, 3, height, width)).astype(np.float32)
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    made = torch.from_numpy(session.run(None, {session.get_inputs()[0].name: image})[0])
    scores = np.sort(made[:, 4 : 4 + len(task.labels)].amax(1).ravel().numpy())
    least = max(float(scores[-BEST] + scores[-BEST - 1]) / 2, 0.001)
    theirs = non_max_suppression(made, conf_thres=least, iou_thres=OVERLAP, nc=len(task.labels), max_det=100)[0].numpy()

    model = replace(model, task=replace(task, score_threshold=least, overlap_threshold=OVERLAP))
    integers = as_integers(model, all_tensors(model, np.ascontiguousarray(image.transpose(0, 2, 3, 1))))
    detector = Detector(stand_in(model))
    ours = detector.objects(integers)
    off: list[tuple[float, float, float]] = []
    for row in theirs:
        box = np.clip(row[:4], 0, [width, height, width, height])
        for each in ours:
            is_same = task.labels.index(each.label) == row[5] and abs(each.score - row[4]) < 1e-4
            if is_same and np.abs(np.array(each.box) - box).max() < 0.5:
                points = [(point.x, point.y, point.score) for point in each.keypoints]
                apart = np.abs(np.array(points, np.float64) - row[6:].reshape(-1, 3)) if points else np.zeros((1, 3))
                off.append((np.abs(np.array(each.box) - box).max(), apart[:, :2].max(), apart[:, 2].max()))
                break
    worst = np.array(off).max(axis=0).tolist()
    has_points = isinstance(task.extras, ObjectPoints)
    return {
        "file": file.name,
        "objects": len(theirs),
        "same": len(off),
        "box": worst[0],
        "point": worst[1] if has_points else None,
        "score": worst[2] if has_points else None,
        "ms": milliseconds(model, integers),
        "ms without extras": milliseconds(*without_extras(model, integers)),
    }


def without_extras(
    model: FloatModel, integers: tuple[NDArray[Any], ...]
) -> tuple[FloatModel, tuple[NDArray[Any], ...]]:
    """The same detection of boxes alone."""
    task = model.task
    assert isinstance(task, Detection)
    task = replace(task, extras=None, levels=tuple(replace(level, extras=None) for level in task.levels))
    kept = [model.outputs.index(name) for name in task.outputs]
    return replace(model, task=task, outputs=task.outputs), tuple(integers[i] for i in kept)


def milliseconds(model: FloatModel, integers: tuple[NDArray[Any], ...]) -> float:
    """Of `Detector.objects`, the least of some runs."""
    detector, times = Detector(stand_in(model)), []
    for _ in range(REPEATS):
        start = perf_counter()
        detector.objects(integers)
        times.append(perf_counter() - start)
    return 1000 * min(times)


if __name__ == "__main__":
    main()
