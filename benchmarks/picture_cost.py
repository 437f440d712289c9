"""CPU time of what is made of pictures: masks, turned and cut ones, motion, the look for a moved camera, JPEGs.

    python benchmarks/picture_cost.py --keep      writes benchmarks/results/picture-cost.json and .md

Each line is the median over rounds of the CPU time of one call, OpenCV on one thread. The lines in which nothing is
asked for are what every frame pays without these keys.
"""

import argparse
import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any, cast

import cv2
import numpy as np

from benchmarks.result_file import write_json, write_markdown
from edgemeta.daemon.capture.frame_filter import FrameFilter
from edgemeta.daemon.capture.latest_frames import CapturedFrame
from edgemeta.daemon.capture.source import Frame, Pixels
from edgemeta.daemon.capture.steady_view import LOOK_EVERY_NS, SteadyView
from edgemeta.daemon.config.camera import CameraConfig
from edgemeta.daemon.config.snapshots import SnapshotsConfig
from edgemeta.daemon.inference.pipeline import FrameResult
from edgemeta.daemon.metrics.counters import FrameCounters
from edgemeta.daemon.mqtt.publisher import Publisher
from edgemeta.daemon.pictures.drawing import with_boxes
from edgemeta.daemon.pictures.jpeg import fitted, scaled
from edgemeta.daemon.pictures.snapshots import Snapshots

COMMAND = "python benchmarks/picture_cost.py --keep"
SHAPES = {"640x360": (360, 640), "1920x1080": (1080, 1920)}
ROUNDS = 7
LEAST_S = 0.05
"""Of a round."""

SQUARE = [[0.1, 0.1], [0.3, 0.1], [0.3, 0.3], [0.1, 0.3]]
CAMERAS: Mapping[str, dict[str, Any]] = {
    "a frame, nothing asked for": {},
    "two masks": {"privacy_masks": [SQUARE, [[0.5, 0.5], [0.9, 0.6], [0.7, 0.9]]]},
    "turned by 90 degrees": {"rotation": 90},
    "cut to a circle": {"circle": {}},
    "one field": {"deinterlace": True},
    "motion": {"motion": {"publish": True, "ignore": [SQUARE]}},
}
OBJECTS = [{"label": "person", "score": 0.9, "box_relative": (0.1 * n, 0.2, 0.1 * n + 0.08, 0.7)} for n in range(8)]


def street(shape: tuple[int, int]) -> Pixels:
    """A picture with as much in it as a street: smooth chance at three scales, and noise."""
    chance = np.random.default_rng(0)
    height, width = shape
    made = np.zeros((height, width, 3), np.float32)
    for cells, weight in ((8, 0.5), (40, 0.3), (160, 0.15)):
        coarse = chance.integers(0, 256, (cells * 9 // 16, cells, 3)).astype(np.float32)
        made += weight * cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC)
    return np.clip(made + chance.normal(0, 3, made.shape), 0, 255).astype(np.uint8)


def cost_us(call: Callable[[], object]) -> float:
    """CPU time of a call, in microseconds."""
    call()
    rounds = []
    for _ in range(ROUNDS):
        calls, began = 0, time.process_time()
        while (spent := time.process_time() - began) < LEAST_S:
            call()
            calls += 1
        rounds.append(1e6 * spent / calls)
    return round(median(rounds), 1)


def costs(pixels: Pixels) -> dict[str, float]:
    """The CPU time of each call for one picture, in microseconds."""
    found = {}
    for name, keys in CAMERAS.items():
        filter_ = FrameFilter(CameraConfig.model_validate({"source": "rtsp://camera", **keys}))
        found[name] = cost_us(lambda filter_=filter_: filter_.apply(Frame(pixels, 1)))
    off = SnapshotsConfig()
    unused = Snapshots(lambda _: off, cast("Publisher", None), {"a": FrameCounters()}, print)
    captured = CapturedFrame("a", 1, Frame(pixels, 1), 0)
    result = cast("FrameResult", None)
    found["a classified frame, no pictures asked for"] = cost_us(lambda: unused.offer(captured, result))
    view, times = SteadyView(10), iter(range(0, 10**18, LOOK_EVERY_NS))
    found["one look for a moved camera"] = cost_us(lambda: view.add(pixels, next(times)))
    found["a picture as JPEG"] = cost_us(lambda: fitted(scaled(pixels, 960), 10**6, 80))
    found["with eight boxes"] = cost_us(lambda: fitted(with_boxes(scaled(pixels, 960), OBJECTS), 10**6, 80))
    return found


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--keep", action="store_true", help="write the result files")
    keep = parser.parse_args().keep
    cv2.setNumThreads(1)
    found = {name: costs(street(shape)) for name, shape in SHAPES.items()}
    names = list(next(iter(found.values())))
    head = f"| CPU time, microseconds | {' | '.join(found)} |\n|---" + "|---" * len(found) + "|"
    rows = [f"| {name} | {' | '.join(f'{each[name]:g}' for each in found.values())} |" for name in names]
    text = "\n".join((head, *rows))
    print(text)
    if keep:
        write_json("picture-cost", COMMAND, {"cpu_us": found})
        write_markdown("picture-cost", COMMAND, text)


if __name__ == "__main__":
    main()
