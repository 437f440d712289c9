"""How much later frames are classified while they are collected: the same service, with and without, in turns.

    python benchmarks/collect_cost.py --keep      writes benchmarks/results/collect-cost.json

The service runs in this process at 30 frames/s of 640x480 (drawn beforehand), with the shipped network and a broker
that is away. Every few seconds collecting is switched on or off, so that both see the same machine. Latency is from
capture to the end of the work on the frame; `collect.max_fps` is as low as its default, and as high as it goes.
"""

import argparse
import logging
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from benchmarks.page_cost import RATE, WARM_UP, write_clip
from benchmarks.result_file import write_json
from edgemeta.daemon.capture.latest_frames import CapturedFrame
from edgemeta.daemon.inference.pipeline import FrameResult
from edgemeta.daemon.runtime.deadline import Deadline
from edgemeta.daemon.service.plan import prepare
from edgemeta.daemon.service.service import Service

PHASE = 3.0
"""Seconds of each turn."""

RATES = (2.0, 30.0)


def measure(folder: Path, pictures_per_second: float, turns: int) -> dict[str, Any]:
    """Run a service and return latencies in microseconds, without (False) and with (True) collecting."""
    config = {
        "cameras": {"front": {"source": str(folder / "clip.avi"), "fps": RATE, "loop": True}},
        "web": {"enabled": True, "port": 0, "token": "0123456789abcdef"},
        "mqtt": {"host": "127.0.0.1", "port": 1},
        "data_folder": str(folder / f"state-{pictures_per_second:g}"),
        "collect": {"max_fps": pictures_per_second, "max_pictures": 100_000, "max_mb": 10_000},
    }
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(config))
    errors: list[BaseException] = []
    service = Service(prepare(path), errors.append)
    assert service.parts.collection is not None
    collector = service.parts.collection.collector
    found: dict[bool, list[int]] = {False: [], True: []}
    phase: list[bool | None] = [None]

    def on_frame(captured: CapturedFrame, _: FrameResult) -> None:
        if phase[0] is not None:
            found[phase[0]].append(time.monotonic_ns() - captured.frame.captured_ns)

    service.parts.worker.frame_listeners.append(on_frame)
    service.start()
    time.sleep(WARM_UP)
    kept = skipped = 0
    for turn in range(2 * turns):
        collecting = turn % 2 == 1
        if collecting:
            collector.hold("front", "state", seconds=PHASE + 1)
        phase[0] = collecting
        time.sleep(PHASE)
        phase[0] = None
        collector.release("front", "state")
        time.sleep(0.3)
        hold = collector.state("front")
        if collecting and hold is not None:
            kept, skipped = kept + hold.kept, skipped + hold.skipped
    superseded = service.parts.snapshot().cameras["front"].counts.dropped.superseded
    service.stop(Deadline(2.0))
    assert errors == [], errors
    return {
        "pictures_per_second": pictures_per_second,
        "kept": kept,
        "skipped": skipped,
        "frames_superseded": superseded,
        **{name: _percentiles(found[collecting]) for name, collecting in (("without", False), ("with", True))},
    }


def _percentiles(values: list[int]) -> dict[str, float]:
    at = np.percentile(np.array(values) / 1000, [50, 99, 100])
    return {"frames": len(values)} | dict(zip(("p50_us", "p99_us", "max_us"), at.round().tolist(), strict=True))


def main() -> None:
    """Measure, print and, where asked to, keep."""
    parser = argparse.ArgumentParser(description="What collecting costs the frames.")
    parser.add_argument("--turns", type=int, default=10, help="turns with and without, for each rate (default 10)")
    parser.add_argument("--keep", action="store_true", help="write benchmarks/results/collect-cost.json")
    arguments = parser.parse_args()
    logging.getLogger("edgemeta").addHandler(logging.NullHandler())
    with tempfile.TemporaryDirectory() as name:
        write_clip(Path(name) / "clip.avi")
        rows = [measure(Path(name), rate, arguments.turns) for rate in RATES]
    for row in rows:
        print(row)
    if arguments.keep:
        write_json("collect-cost", "python benchmarks/collect_cost.py --keep", {"rate": RATE, "rows": rows})


if __name__ == "__main__":
    main()
