"""Decoding and suppression: from the integers of a detection's outputs to objects, on one core.

    python benchmarks/detection.py      writes results/detection.{json,md}

YOLOX at 416x416: 3,549 candidates of 80 labels, in int8 and as int32 accumulators with a step for each channel. The
usual image has 8 objects and 30 candidates above the threshold of 0.4; the others show the extremes. The detector is
compared with the plain version first: the same objects, the same floats.
"""

import argparse
import gc
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.result_file import write_json, write_markdown
from edgemeta.model.graph import Model
from edgemeta.tasks.detection.objects import Detector
from edgemeta.tasks.detection.plain import plain_numbers, plain_objects
from tests.tasks.detection.models import Kind, detection_model

COMMAND = "python benchmarks/detection.py"
LIMIT_US = 300
SIDES = (8, 16, 32)
OBJECTS, CANDIDATES = 8, 30
KINDS: dict[Kind, str] = {"int8": "int8", "int32 by channel": "int32, a step for each channel"}
Outputs = tuple[NDArray[Any], ...]


def main() -> None:
    """Measure and write both files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=1000)
    arguments = parser.parse_args()
    rows = []
    for kind, text in KINDS.items():
        model = detection_model("yolox", labels=80, image=(416, 416), strides=SIDES, kind=kind)
        detector = Detector(model)
        for name, numbers in (("usual", usual()), ("nothing", nothing()), ("every cell", every_cell())):
            outputs = integers(model, numbers)
            objects = detector.objects(outputs)
            if objects != plain_objects(model, outputs):
                raise AssertionError("the detector differs from the plain version")
            boxes, _, scores = plain_numbers(model, outputs)
            above = int((scores.max(axis=1) >= 0.4).sum())
            if above != {"usual": CANDIDATES, "nothing": 0, "every cell": len(boxes)}[name]:
                raise AssertionError(f"{name}: {above} candidates are above the threshold")
            taken = times(detector, outputs, arguments.calls)
            row = {"outputs": text, "image": name, "objects": len(objects)}
            rows.append(row | {"min_us": round(float(taken.min())), "median_us": round(float(np.median(taken)))})
            print(rows[-1], flush=True)
    write_json("detection", COMMAND, {"candidates": 3549, "labels": 80, "limit_us": LIMIT_US, "rows": rows})
    lines = [
        f"YOLOX at 416x416: 3,549 cells, 80 labels. Usual: {OBJECTS} objects that {CANDIDATES} cells above the "
        f"threshold show; at most {LIMIT_US} us is asked. Every cell: all 3,549 above the threshold, of which the best "
        "1,000 are decoded and compared. Microseconds of one call.",
        "",
        "| outputs | image | objects | min | median |",
        "| --- | --- | ---: | ---: | ---: |",
        *(f"| {' | '.join(str(value) for value in row.values())} |" for row in rows),
    ]
    write_markdown("detection", COMMAND, "\n".join(lines))
    if any(row["image"] == "usual" and float(str(row["median_us"])) > LIMIT_US for row in rows):
        raise SystemExit(f"the usual image takes more than {LIMIT_US} us")


def times(detector: Detector, outputs: Outputs, calls: int) -> NDArray[np.float64]:
    """Microseconds of each call."""
    taken = []
    gc.disable()
    for _ in range(calls):
        begin = time.perf_counter_ns()
        detector.objects(outputs)
        taken.append(time.perf_counter_ns() - begin)
    gc.enable()
    return np.array(taken[calls // 10 :]) / 1000


def usual() -> dict[str, NDArray[np.float64]]:
    """Numbers of each output of an image with objects, each of them seen by the cells about its centre."""
    rng = np.random.default_rng(1)
    numbers = nothing()
    left = CANDIDATES
    for number, level in enumerate((0, 0, 1, 1, 1, 2, 2, 2)):
        side = 416 // SIDES[level]
        y, x = rng.integers(0, side - 2), 1 + number % 3 * (side // 3)  # apart from each other
        cells = min(left - (OBJECTS - number - 1), 4)
        left -= cells
        size = rng.uniform(0.5, 1.5, 2)
        label = rng.integers(0, 3)
        for dy, dx in ((0, 0), (0, 1), (1, 0), (1, 1))[:cells]:
            numbers[f"objectness{level}"][y + dy, x + dx] = rng.uniform(1.5, 3)
            numbers[f"classes{level}"][y + dy, x + dx, label] = rng.uniform(2, 4)
            numbers[f"boxes{level}"][y + dy, x + dx] = (0.5 - dx, 0.5 - dy, *size)
    return numbers


def nothing() -> dict[str, NDArray[np.float64]]:
    """Every score far below the threshold."""
    rng = np.random.default_rng(0)
    return {
        f"{part}{level}": rng.normal(mean, 0.7, (416 // stride, 416 // stride, channels))
        for level, stride in enumerate(SIDES)
        for part, channels, mean in (("boxes", 4, 0.0), ("classes", 80, -4.0), ("objectness", 1, -5.0))
    }


def every_cell() -> dict[str, NDArray[np.float64]]:
    """Every cell above the threshold."""
    return {name: value + {"b": 0, "c": 6, "o": 9}[name[0]] for name, value in nothing().items()}


def integers(model: Model, numbers: dict[str, NDArray[np.float64]]) -> Outputs:
    """The outputs that represent these numbers."""
    return tuple(
        np.clip(np.rint(numbers[name] / model.steps(name) + kind.zero_point), kind.lo, kind.hi).astype(kind.dtype)
        for name, kind in zip(model.outputs, model.output_types, strict=True)
    )


if __name__ == "__main__":
    main()
