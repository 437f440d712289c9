"""Frame to input tensor: our fused routine against OpenCV with the same work, taking turns in one process.

    python benchmarks/preprocess.py

Frames are BGR and warm in the caches; one thread. The first case is ResNet-8's input, the others are letterboxes of
detectors, whose peer is what their examples do: cv2.resize, cv2.copyMakeBorder, and cv2.dnn.blobFromImage for the
float32 [1, C, H, W] that float runtimes take. Our resize is by exact area; OpenCV's is timed linear (the examples'
choice, which skips pixels when it makes a picture smaller) and by area. It rounds otherwise, so its tensors are only
near ours. What `backend.preprocess: device` leaves to the CPU, the copy of the frame to memory for the device, is timed
beside them. Writes results/preprocess.{json,md}.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from benchmarks.result_file import write_json, write_markdown
from edgemeta.kernels.cuda.preprocess.geometry import FrameLayout
from edgemeta.model.file import load
from edgemeta.model.graph import Model, Preprocessing
from edgemeta.model.layers import TensorType
from edgemeta.model.preprocess import Rectangle, content_rectangle, preprocess
from edgemeta.model.zoo import find
from edgemeta.plugins.preprocess import make_preprocessor

COMMAND = "python benchmarks/preprocess.py"
GRAY = 114
"""Fill of the letterboxes, as in the YOLO family."""

Way = Callable[[NDArray[np.uint8]], NDArray[Any]]


@dataclass(frozen=True)
class Comparison:
    """Ways by name that make a tensor [H, W, C] of frames [H, W, 3]."""

    frame: tuple[int, int, int]
    tensor: tuple[int, ...]
    ways: dict[str, Way]


def main() -> None:
    """Measure and write both files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--calls", type=int, default=20, help="calls per round")
    arguments = parser.parse_args()
    cv2.setNumThreads(1)
    model = load(find("resnet8-cifar10"))
    comparisons = [small_input(model), letterbox(model, (360, 480), 416), letterbox(model, (1080, 1920), 640)]
    cases, lines = [], [f"Warm, one thread, taking turns: {arguments.rounds} rounds of {arguments.calls} calls each."]
    for comparison in comparisons:
        frame = np.random.default_rng(0).integers(0, 256, comparison.frame).astype(np.uint8)
        times = take_turns(comparison.ways, frame, arguments.rounds, arguments.calls)
        rows = [
            {"way": name, "min_us": round(float(t.min()), 1), "median_us": round(float(np.median(t)), 1)}
            for name, t in times.items()
        ]
        cases.append({"frame": list(comparison.frame), "tensor": list(comparison.tensor), "rows": rows})
        (height, width, _), (rows_out, columns_out, channels) = comparison.frame, comparison.tensor
        lines += [
            "",
            f"| {width}x{height} BGR to {columns_out}x{rows_out}x{channels}, microseconds | min | median |",
            "| --- | ---: | ---: |",
            *(f"| {row['way']} | {row['min_us']} | {row['median_us']} |" for row in rows),
        ]
    write_json("preprocess", COMMAND, {"cases": cases})
    write_markdown("preprocess", COMMAND, "\n".join(lines))
    print("\n".join(lines))


def small_input(model: Model) -> Comparison:
    """A frame of 640x480 to the 32x32 of ResNet-8; cv2's resize alone, and with colour and table."""
    shape = (480, 640, 3)
    ways: dict[str, Way] = {}
    for crop, text in (("full", "whole frame"), ("center", "centred square")):
        ways[f"edgemeta, {text}"] = ours(model, model.input, replace(model.preprocessing, crop=crop), shape)
    ways["copy for a device, centred square"] = copy(Input(model.input, model.preprocessing), shape)
    table = model.preprocessing.table[0]
    ways["cv2 INTER_AREA, whole frame, resize only"] = lambda image: cv2.resize(
        image, (32, 32), interpolation=cv2.INTER_AREA
    )
    ways["cv2 INTER_AREA, whole frame, with colour and table"] = lambda image: table[
        cv2.cvtColor(cv2.resize(image, (32, 32), interpolation=cv2.INTER_AREA), cv2.COLOR_BGR2RGB)
    ]
    return Comparison(shape, model.input.shape, ways)


def letterbox(model: Model, size: tuple[int, int], side: int) -> Comparison:
    """A frame (H, W) to a letterbox of side x side: plain pixels, and integers of a normalization of each channel."""
    shape = (*size, 3)
    pixels = TensorType((side, side, 3), signed=False)
    plain = Preprocessing("letterbox", "bgr", np.arange(256, dtype=np.uint8)[np.newaxis], (GRAY,))
    means, deviations = np.array([[123.675], [116.28], [103.53]]), np.array([[58.395], [57.12], [57.375]])
    steps = np.round((np.arange(256) - means) / deviations / 0.0207)
    normalized = Preprocessing("letterbox", "rgb", np.clip(steps, -128, 127).astype(np.int8), (GRAY,))
    part = content_rectangle(size, (side, side), plain)
    ways: dict[str, Way] = {
        "edgemeta, pixels": ours(model, pixels, plain, shape),
        "edgemeta, normalized by a table for each channel": ours(
            model, replace(pixels, signed=True), normalized, shape
        ),
    }
    ways["copy for a device"] = copy(Input(pixels, plain), shape)
    for interpolation, text in ((cv2.INTER_LINEAR, "INTER_LINEAR"), (cv2.INTER_AREA, "INTER_AREA")):
        ways[f"cv2 {text}, resize and border"] = boxing(part, side, interpolation)
        ways[f"cv2 {text}, resize, border, blobFromImage"] = blob(boxing(part, side, interpolation))
    return Comparison(shape, pixels.shape, ways)


def ours(model: Model, target: TensorType, preprocessing: Preprocessing, shape: tuple[int, ...]) -> Way:
    """Our routine for a model with this input, checked against the definition first."""
    prepare = make_preprocessor(replace(model, input=target, preprocessing=preprocessing), shape)
    frame = np.random.default_rng(1).integers(0, 256, shape).astype(np.uint8)
    if not (prepare(frame)[0] == preprocess(frame, target, preprocessing)).all():
        raise AssertionError("the fused routine differs from the definition")
    return prepare


@dataclass(frozen=True, eq=False)
class Input:
    """What a frame becomes, as a Model says it."""

    input: TensorType
    preprocessing: Preprocessing


def copy(target: Input, shape: tuple[int, ...]) -> Way:
    """The part of a frame that goes to a device, copied to memory that is used again."""
    layout = FrameLayout(target, shape, [Rectangle(0, 0, *shape[:2])])
    memory = np.zeros(layout.nbytes, np.uint8)

    def way(frame: NDArray[np.uint8]) -> NDArray[Any]:
        layout.copy(frame, memory)
        return memory

    return way


def boxing(part: Rectangle, side: int, interpolation: int) -> Way:
    """OpenCV's letterbox, uint8 [side, side, 3]."""
    below, right = side - part.height - part.top, side - part.width - part.left

    def way(frame: NDArray[np.uint8]) -> NDArray[Any]:
        small = cv2.resize(frame, (part.width, part.height), interpolation=interpolation)
        return cv2.copyMakeBorder(
            small, part.top, below, part.left, right, cv2.BORDER_CONSTANT, value=(GRAY, GRAY, GRAY)
        )

    return way


def blob(way: Way) -> Way:
    """The same as float32 [1, 3, H, W]."""
    return lambda frame: np.asarray(cv2.dnn.blobFromImage(way(frame)))


def take_turns(
    ways: dict[str, Way], frame: NDArray[np.uint8], rounds: int, calls: int
) -> dict[str, NDArray[np.float64]]:
    """Microseconds of every call; the first call of each turn warms the caches and is not timed."""
    times: dict[str, list[int]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            way(frame)
            for _ in range(calls):
                begin = time.perf_counter_ns()
                way(frame)
                times[name].append(time.perf_counter_ns() - begin)
    return {name: np.array(taken) / 1000 for name, taken in times.items()}


if __name__ == "__main__":
    main()
