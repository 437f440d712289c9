"""Frame to input tensor: our fused routine against cv2.resize(INTER_AREA) with the same work after it, taking turns.

    python benchmarks/preprocess.py

Frames are 640x480 BGR and warm in the caches, the target is ResNet-8's 32x32; one thread. cv2 is timed twice: the
resize alone, and with colour and table, which give the tensor; it rounds otherwise, so its tensor is only near ours.
Writes results/preprocess.{json,md}.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from benchmarks.result_file import write_json, write_markdown
from edgemeta.model.file import load
from edgemeta.model.graph import Model
from edgemeta.model.preprocess import preprocess
from edgemeta.model.zoo import find
from edgemeta.plugins.preprocess import make_preprocessor

COMMAND = "python benchmarks/preprocess.py"


def main() -> None:
    """Measure and write both files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--calls", type=int, default=20, help="calls per round")
    arguments = parser.parse_args()
    cv2.setNumThreads(1)
    frame = np.random.default_rng(0).integers(0, 256, (480, 640, 3)).astype(np.uint8)
    model = load(find("resnet8-cifar10"))
    ways = make_ways(model, frame)
    times = take_turns(ways, frame, arguments.rounds, arguments.calls)
    rows = [
        {"way": name, "min_us": round(float(t.min()), 1), "median_us": round(float(np.median(t)), 1)}
        for name, t in times.items()
    ]
    write_json("preprocess", COMMAND, {"frame": [480, 640, 3], "tensor": list(model.input.shape), "rows": rows})
    lines = [
        f"640x480 BGR to 32x32, warm, one thread, taking turns: {arguments.rounds} rounds of {arguments.calls} calls "
        "each. Microseconds.",
        "",
        "| way | min | median |",
        "| --- | ---: | ---: |",
        *(f"| {row['way']} | {row['min_us']} | {row['median_us']} |" for row in rows),
    ]
    write_markdown("preprocess", COMMAND, "\n".join(lines))
    print("\n".join(lines))


def make_ways(model: Model, frame: NDArray[np.uint8]) -> dict[str, Callable[[NDArray[np.uint8]], NDArray[Any]]]:
    """Give the ways by name; ours are checked against the definition first."""
    ways: dict[str, Callable[[NDArray[np.uint8]], NDArray[Any]]] = {}
    for crop, text in (("full", "whole frame"), ("center", "centred square")):
        cropping = replace(model, preprocessing=replace(model.preprocessing, crop=crop))
        prepare = make_preprocessor(cropping, frame.shape)
        expected = preprocess(frame, cropping.input, cropping.preprocessing)
        if not (prepare(frame)[0] == expected).all():
            raise AssertionError("the fused routine differs from the definition")
        ways[f"edgemeta, {text}"] = prepare
    table = model.preprocessing.table[0]
    ways["cv2 INTER_AREA, whole frame, resize only"] = lambda image: cv2.resize(
        image, (32, 32), interpolation=cv2.INTER_AREA
    )
    ways["cv2 INTER_AREA, whole frame, with colour and table"] = lambda image: table[
        cv2.cvtColor(cv2.resize(image, (32, 32), interpolation=cv2.INTER_AREA), cv2.COLOR_BGR2RGB)
    ]
    return ways


def take_turns(
    ways: dict[str, Callable[[NDArray[np.uint8]], NDArray[Any]]], frame: NDArray[np.uint8], rounds: int, calls: int
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
