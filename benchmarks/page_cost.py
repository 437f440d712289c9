"""CPU cost of the live page: with no page open, with one, with eight.

    python benchmarks/page_cost.py --keep      writes benchmarks/results/page-cost.json

The service runs in this process at 30 frames/s of 640x480 (drawn beforehand, so that drawing costs nothing), with the
shipped network and a broker that is away. Each page is a separate process that does what the page's script does: it
listens to the events and fetches a picture after each, at `web.max_fps` 10 in total. CPU time is the kernel's, by
thread.
"""

import argparse
import http.client
import itertools
import json
import logging
import re
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import yaml

from benchmarks.result_file import write_json
from edgemeta.daemon.capture.latest_frames import CapturedFrame
from edgemeta.daemon.capture.source import Frame
from edgemeta.daemon.capture.sources.synthetic.show import Show
from edgemeta.daemon.inference.loaded_model import LoadedModel
from edgemeta.daemon.inference.pipeline import Identity, Pipeline
from edgemeta.daemon.runtime.clock import Clock
from edgemeta.daemon.runtime.deadline import Deadline
from edgemeta.daemon.service.plan import prepare
from edgemeta.daemon.service.service import Service
from edgemeta.daemon.web.recent_frames import RecentFrames

RATE = 30
CLIP_FRAMES = 90
WARM_UP = 3.0
PAGES = (0, 1, 8)


def view(port: int) -> None:
    """Be an open page until killed."""
    events = http.client.HTTPConnection("127.0.0.1", port)
    events.request("GET", "/api/events")
    stream = events.getresponse()
    print("open", flush=True)
    while line := stream.readline():
        if line.startswith(b"data: "):
            json.loads(line[6:])
            picture = http.client.HTTPConnection("127.0.0.1", port)
            picture.request("GET", "/frame/front.jpg")
            picture.getresponse().read()
            picture.close()


def threads() -> dict[str, int]:
    """CPU time in nanoseconds of each of Python's threads so far, by name."""
    return {
        thread.name: int(Path(f"/proc/self/task/{thread.native_id}/schedstat").read_text("ascii").split()[0])
        for thread in threading.enumerate()
    }


def spent(seconds: float, frames: Any) -> dict[str, float]:
    """Measure for so long: microseconds of CPU per classified frame, by thread."""
    before, first = threads(), frames()
    time.sleep(seconds)
    after, count = threads(), frames() - first
    return {name: round((ns - before.get(name, 0)) / 1000 / count, 1) for name, ns in after.items()}


class Port(logging.Handler):
    """Hears at which port the page is."""

    def __init__(self) -> None:
        super().__init__()
        self.number = 0
        self.known = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        """Look for the port in a line of the log."""
        if updates := re.search(r"page at http://127\.0\.0\.1:([0-9]+)/", record.getMessage()):
            self.number = int(updates[1])
            self.known.set()


def measure(folder: Path, enabled: bool, pages: int, seconds: float) -> dict[str, float]:
    """Run a service with so many open pages and measure it."""
    config = {
        "cameras": {"front": {"source": str(folder / "clip.avi"), "fps": RATE, "loop": True}},
        "web": {"enabled": enabled, "port": 0},
        "mqtt": {"host": "127.0.0.1", "port": 1},
        "data_folder": str(folder / "state"),
    }
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(config))
    port, log = Port(), logging.getLogger("edgemeta")
    log.setLevel(logging.INFO)
    log.addHandler(port)
    faults: list[BaseException] = []
    service = Service(prepare(path), faults.append)
    service.start()
    viewers = []
    if pages:
        assert port.known.wait(10)
    for _ in range(pages):
        command = [sys.executable, __file__, "--view", str(port.number)]
        viewers.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
    for viewer in viewers:
        assert viewer.stdout is not None
        assert viewer.stdout.readline() == "open\n"
    time.sleep(WARM_UP)
    found = spent(seconds, lambda: service.parts.health().frames)
    for viewer in viewers:
        viewer.kill()
        viewer.wait()
    service.stop(Deadline(2.0))
    log.removeHandler(port)
    assert faults == [], faults
    return found


def hook_ns(network: LoadedModel, calls: int = 200_000) -> float:
    """Nanoseconds that the worker spends per frame on telling the page's memory of it; the best of five rounds."""
    from edgemeta.daemon.config.config import Config
    from edgemeta.daemon.inference.readers.settings import settings_of
    from edgemeta.daemon.messages.records import Drops

    settings = settings_of(Config.model_validate({"cameras": {"front": {"source": "synthetic://"}}}), "front")
    pipeline = Pipeline(Identity("dev", "b" * 32), "front", network, settings, Clock())
    pixels = np.zeros((480, 640, 3), np.uint8)
    drops = Drops(superseded=0, failed=0, outbox=0, stopped=0)
    step = pipeline.classify(CapturedFrame("front", 1, Frame(pixels, time.monotonic_ns()), 0), drops, 0)
    seen, best = RecentFrames(["front"], keep_pixels=True), float("inf")
    stamps = itertools.count(0, 1_000_000_000 // RATE)
    for _ in range(5):
        frames = [CapturedFrame("front", 1, Frame(pixels, next(stamps)), 0) for _ in range(calls // 5)]
        began = time.perf_counter_ns()
        for captured in frames:
            seen.add(captured, step)
        best = min(best, (time.perf_counter_ns() - began) / len(frames))
    return round(best, 0)


def write_clip(path: Path) -> None:
    """Write three seconds of drawn scenes, 640x480, Motion JPEG."""
    show = Show()
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*"MJPG"), RATE, (640, 480))
    for number in range(CLIP_FRAMES):
        writer.write(show.frame(number))
    writer.release()


def main() -> None:
    """Measure, print and, where asked to, keep."""
    parser = argparse.ArgumentParser(description="What the live page costs the service.")
    parser.add_argument("--seconds", type=float, default=15.0, help="for each measurement (default 15)")
    parser.add_argument("--keep", action="store_true", help="write benchmarks/results/page-cost.json")
    parser.add_argument("--view", type=int, metavar="PORT", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.view:
        return view(arguments.view)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_clip(folder / "clip.avi")
        found: dict[str, Any] = {"off": measure(folder, False, 0, arguments.seconds)}
        for pages in PAGES:
            found[f"{pages} pages"] = measure(folder, True, pages, arguments.seconds)
        plan = prepare(folder / "config.yaml")
        hook = hook_ns(plan.loaded_models["front"])
        plan.loaded_models["front"].close()
    print(f"the worker's hook: {hook:.0f} ns per frame")
    for what, by_thread in found.items():
        page, worker = by_thread.get("page", 0.0), by_thread["worker"]
        share = page * RATE / 1e6
        print(f"{what:8}  page {page:7.1f} us/frame ({share:.1%} of a core)   worker {worker:7.1f} us/frame")
    if arguments.keep:
        values = {"rate": RATE, "hook_ns_per_frame": hook, "cpu_us_per_frame_by_thread": found}
        write_json("page-cost", "python benchmarks/page_cost.py --keep", values)
    return None


if __name__ == "__main__":
    main()
